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
    """A body that is being received. `read` may be called many times, by one reader at a time."""

    __slots__ = (
        "_chunks",
        "_error",
        "_joined",
        "_loop",
        "_on_wait",
        "_waiter",
        "complete",
        "length",
        "limit",
        "received",
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
        if length is not None and length > limit:
            self._error = BodyTooLarge(limit)

    def feed(self, data: bytes) -> None:
        """Add received data. What exceeds the limit, or follows a failure, is counted and dropped."""
        self.received += len(data)
        if self._error is not None:
            return
        if self.received > self.limit:
            self.fail(BodyTooLarge(self.limit))
        elif len(self._chunks) < MANY:
            self._chunks.append(data)
        else:  # a body in tiny pieces must not cost an object for each
            if self._joined is None:
                self._joined = bytearray(b"".join(self._chunks))
            self._joined += data

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
        """Whether somebody is waiting for the rest of it."""
        return self._waiter is not None

    @property
    def buffered(self) -> int:
        """Bytes held here."""
        return 0 if self._error is not None else self.received

    async def read(self) -> bytes:
        """The whole body. Raises `BodyTooLarge`, `BrokenBody`."""
        while self._error is None and not self.complete:
            waiter = self._waiter = self._loop.create_future()
            self._on_wait()
            try:
                await waiter
            finally:
                self._waiter = None
        if self._error is not None:
            raise self._error
        if self._joined is not None:
            self._chunks, self._joined = [bytes(self._joined)], None
        elif len(self._chunks) > 1:
            self._chunks = [b"".join(self._chunks)]
        return self._chunks[0] if self._chunks else b""

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
