"""`HttpRequest` and `HttpResponse`: a request to another machine, and its response as fast as it is read.

Must not know: sockets, frames. See also: `http1`, `http2`, which fill a response; `pool`, which sends requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from oarlock.meta.dataclass import dataclass

MOST_BUFFERED = 256 * 1024
"""How many bytes of a response are held for a reader that is slower than the server, before the server is paused."""

Header = tuple[str, str]


class HttpError(ConnectionError):
    """No response came, or half of one. The text is what Go's HTTP client says.

    `unsent`: the server can't have begun the request. `unanswered`: not a byte of a response came.
    """

    def __init__(self, why: str, *, unsent: bool = False, unanswered: bool = False) -> None:
        super().__init__(why)
        self.unsent = unsent
        self.unanswered = unanswered or unsent


class UnaskedSwitch(HttpError):
    """The server switched protocols, and the request didn't ask for that."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. `target` is the path with the query; `headers` are besides host and framing, names in lower case.

    A `body` that is iterated is sent as it comes: `length` says how long it is, None that nobody knows. A request that
    is to `upgrade` has the headers that say so; it goes over HTTP/1.1 only.
    """

    method: str
    host: str
    target: str
    headers: tuple[Header, ...] = ()
    body: bytes | AsyncIterator[bytes] = b""
    length: int | None = None
    upgrade: bool = False

    @property
    def streams(self) -> bool:
        """Whether the body can't be sent a second time."""
        return not isinstance(self.body, bytes)

    @property
    def body_length(self) -> int | None:
        """The length of the body in bytes; None if it is unknown."""
        return len(self.body) if isinstance(self.body, bytes) else self.length

    @property
    def says_length(self) -> bool:
        """Whether a length belongs in the head (RFC 9110 §8.6)."""
        return bool(self.body) or self.method in ("POST", "PUT", "PATCH")


class Exchange(Protocol):
    """What a response needs of the connection that it comes over."""

    def on_taken(self) -> None:
        """The reader has taken all that there was."""
        ...

    def cut(self) -> None:
        """The rest isn't wanted."""
        ...

    async def write(self, data: bytes) -> None:
        """Send more; waits while the server takes none. Raises `HttpError`."""
        ...


class HttpResponse:
    """The response to one request. Names of `headers` are lower case.

    A connection calls `begin`, `add`, `end` and `fail`. One task reads. Who doesn't read it to its end closes it.
    """

    __slots__ = (
        "_error",
        "_exchange",
        "_on_over",
        "_pieces",
        "_reader",
        "buffered",
        "head",
        "headers",
        "status",
        "whole",
    )

    def __init__(self, exchange: Exchange) -> None:
        self.status = 0
        self.headers: list[Header] = []
        self.head: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when status and headers are here. Raises `HttpError`, or what the body of the request raised."""
        self.whole = False
        self.buffered = 0
        self._exchange = exchange
        self._pieces: deque[bytes] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._on_over: list[Callable[[], None]] = []

    # Reading

    def header(self, name: str) -> str:
        """The first value of a header, empty if there is none."""
        return next((value for key, value in self.headers if key == name), "")

    async def piece(self) -> bytes:
        """What has come of the body, or of raw bytes after a switch of protocols; empty at the end.

        Raises `HttpError` if it is cut.
        """
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self.whole:
                return b""
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return self._taken()

    async def read(self, most: int) -> bytes:
        """The body; of one that is longer than `most`, more than that and not all. Raises `HttpError`."""
        body = b""
        try:
            while len(body) <= most and (piece := await self.piece()):
                body = body + piece if body else piece
        finally:
            self.close()
        return body

    def taken(self) -> bytes | None:
        """The whole body, if it is here already; else None."""
        return self._taken() if self.whole and self._error is None else None

    async def write(self, data: bytes) -> None:
        """Send raw bytes after a switch of protocols; waits while the server takes none. Raises `HttpError`."""
        await self._exchange.write(data)

    def close(self) -> None:
        """Give up the rest. Safe to call twice."""
        if not self.over:
            self._exchange.cut()
            self.fail(HttpError("the response was closed"))

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self.whole or self._error is not None

    def on_over(self, call: Callable[[], None]) -> None:
        """Call this once, when nothing more comes."""
        self._on_over.append(call)
        if self.over:
            self._tell_over()

    def _taken(self) -> bytes:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.buffered = 0
        self._exchange.on_taken()
        return data

    # Filling

    def begin(self, status: int, headers: list[Header]) -> None:
        """Status and headers are here."""
        self.status, self.headers = status, headers
        if not self.head.done():
            self.head.set_result(None)

    def add(self, data: bytes) -> None:
        """A part of the body is here."""
        if not self.over:
            self._pieces.append(data)
            self.buffered += len(data)
            self._wake()

    def end(self) -> None:
        """The whole body is here."""
        if not self.over:
            self.whole = True
            self._wake()
            self._tell_over()

    def fail(self, error: Exception) -> None:
        """End the body as incomplete. Bytes received before can still be read."""
        if self.over:
            return
        self._error = error
        if not self.head.done():
            self.head.set_exception(error)
            self.head.exception()  # nobody may wait for it any more
        self._wake()
        self._tell_over()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _tell_over(self) -> None:
        calls, self._on_over = self._on_over, []
        for call in calls:
            call()
