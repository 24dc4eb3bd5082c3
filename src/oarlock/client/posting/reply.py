"""`PostReply`: the answer to one POST while it comes, within a bound. Must not know: connections."""

from __future__ import annotations

import asyncio

from oarlock.meta.dataclass import dataclass

__all__ = ["PostAnswer", "PostError", "PostReply", "PostRequest"]

MOST_ERROR_BYTES = 64 * 1024
"""So much is read of an answer that isn't a success."""


class PostError(Exception):
    """No answer came. The text is what Go's HTTP client says. `unsent`: the server can't have begun the request."""

    def __init__(self, why: str, *, unsent: bool = False) -> None:
        super().__init__(why)
        self.unsent = unsent


@dataclass(frozen=True, slots=True)
class PostRequest:
    """`path` is with the query; `headers` are besides host and length, names in lower case.

    A successful answer may have `most_bytes`.
    """

    host: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    most_bytes: int


@dataclass(frozen=True, slots=True)
class PostAnswer:
    """An answer. The body of one that isn't a success may be cut; `too_long` says that of a success."""

    status: int
    content_type: str
    body: bytes
    too_long: bool = False


class PostReply:
    """`answer` is done when all is here that will be read. Raises `PostError`."""

    __slots__ = ("_body", "_content_type", "_most_bytes", "answer", "status")

    def __init__(self, most_bytes: int) -> None:
        self.answer: asyncio.Future[PostAnswer] = asyncio.get_running_loop().create_future()
        self.status = 0
        self._content_type = ""
        self._most_bytes = most_bytes
        self._body = bytearray()

    def begin(self, status: int, content_type: str) -> None:
        """The head is here."""
        self.status = status
        self._content_type = content_type
        if not 200 <= status < 300:
            self._most_bytes = min(self._most_bytes, MOST_ERROR_BYTES)

    def add(self, data: bytes) -> bool:
        """A part of the body is here. False if that is enough, and no more is wanted."""
        self._body += data
        if len(self._body) <= self._most_bytes:
            return True
        self._finish(too_long=200 <= self.status < 300)
        return False

    def end(self) -> None:
        """The whole body is here."""
        self._finish(too_long=False)

    def fail(self, error: PostError) -> None:
        """Nothing more comes."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def _finish(self, *, too_long: bool) -> None:
        if not self.answer.done():
            body = bytes(self._body[: self._most_bytes])
            self.answer.set_result(PostAnswer(self.status, self._content_type, body, too_long))
        self._body.clear()
