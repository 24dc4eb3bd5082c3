"""`RequestBody`: the received part of a request's body, and who waits for the rest.

Independent of the protocol: a connection feeds it, and `on_wait` is called when somebody waits for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oarlock.endpoints.http import BodyTooLarge

__all__ = ["RequestBody", "no_body"]

MANY = 256


async def no_body() -> bytes:
    """The body of a request that has none."""
    return b""


class RequestBody:
    """A body that is being received. `read` may be called many times, by one reader at a time.

    Who calls `piece` instead gets what has come since, and nothing of that is held any longer; `limit` is for `read`.
    Until one of both is called, the connection sees to it that little is received.
    """

    __slots__ = (
        "_chunks",
        "_error",
        "_joined",
        "_loop",
        "_on_wait",
        "_waiter",
        "_whole",
        "complete",
        "length",
        "limit",
        "received",
        "streamed",
        "taken",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit: int,
        on_wait: Callable[[], None],
        length: int | None = None,
    ) -> None:
        self._loop = loop
        self._chunks: list[bytes] = []
        self._joined: bytearray | None = None
        self._error: Exception | None = None
        self._on_wait = on_wait
        self._waiter: asyncio.Future[None] | None = None
        self.complete = False
        self.limit = limit
        self.length = length  # the Content-Length; None if there is none
        self.received = 0
        self.taken = 0
        self.streamed = False
        """Whether it is taken in pieces."""
        self._whole = False

    def feed(self, data: bytes) -> None:
        """Add received data. What exceeds the limit, or follows a failure, is counted and dropped."""
        self.received += len(data)
        if self._error is not None:
            return
        if self._whole and self.received > self.limit:
            self.fail(BodyTooLarge(self.limit))
            return
        if len(self._chunks) < MANY:
            self._chunks.append(data)
        else:  # a body in tiny pieces must not cost an object for each
            if self._joined is None:
                self._joined = bytearray(b"".join(self._chunks))
            self._joined += data
        if self.streamed:
            self._wake()

    def finish(self) -> None:
        """The body is complete."""
        self.complete = True
        self._wake()

    def fail(self, error: Exception) -> None:
        """The rest won't come: every `read` from now on raises `error`. A complete body isn't changed."""
        if self._error is None and not self.complete:
            self._error = error
            self._chunks.clear()
            self._joined = None
            self._wake()

    @property
    def failed(self) -> bool:
        return self._error is not None

    @property
    def awaited(self) -> bool:
        """Whether a reader waits for the rest of the body."""
        return self._waiter is not None and not self._waiter.done()

    @property
    def buffered(self) -> int:
        """Bytes held here."""
        return 0 if self._error is not None else self.received - self.taken

    async def read(self) -> bytes:
        """The whole body. Raises `BodyTooLarge`, `BrokenBody`."""
        if not self._whole:
            self._whole = True
            if self._error is None and max(self.length or 0, self.received) > self.limit:
                self._error = BodyTooLarge(self.limit)
                self._chunks.clear()
                self._joined = None
        while self._error is None and not self.complete:
            await self._more()
        if self._error is not None:
            raise self._error
        return self._held()

    async def piece(self) -> bytes:
        """What has come since the last call, ``b""`` at the end. Raises `BrokenBody`."""
        self.streamed = True
        while self._error is None and not self.complete and not self._chunks:
            await self._more()
        if self._error is not None:
            raise self._error
        data = self._held()
        self._chunks.clear()
        self.taken += len(data)
        return data

    async def _more(self) -> None:
        waiter = self._waiter = self._loop.create_future()
        self._on_wait()
        try:
            await waiter
        finally:
            self._waiter = None

    def _held(self) -> bytes:
        if self._joined is not None:
            self._chunks, self._joined = [bytes(self._joined)], None
        elif len(self._chunks) > 1:
            self._chunks = [b"".join(self._chunks)]
        return self._chunks[0] if self._chunks else b""

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
