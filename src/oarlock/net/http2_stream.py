"""`ClientStream`: what a client's connection knows of one stream while it is open. See also: `http2_connection`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

from oarlock.meta.dataclass import dataclass

__all__ = ["ClientStream", "StreamFailure"]


@dataclass(frozen=True, slots=True)
class StreamFailure:
    """Why a stream ended without the end of its answer.

    `code` is that of the server's RST_STREAM, None if the connection ended. `unsent`: the server has certainly not
    begun it, so that it may be repeated (RFC 9113 §8.7).
    """

    why: str
    code: int | None = None
    unsent: bool = False


class ClientStream(ABC):
    """A connection calls the methods named ``on_…``; they don't raise. `begun`: its header fields were handed to the
    socket."""

    __slots__ = ("begun", "ended", "received", "stream_id", "unsent", "window")

    def __init__(self) -> None:
        self.stream_id = 0
        self.begun = False
        self.ended = False
        """Whether it takes nothing more."""
        self.window = 0
        """How many bytes the server still takes."""
        self.unsent: deque[bytes | memoryview] = deque()
        self.received = 0
        """Bytes that the server hasn't been allowed anew."""

    @property
    def hungry(self) -> bool:
        """Whether it takes more now."""
        return True

    def on_drained(self) -> None:
        """All that was to be sent has been handed to the socket."""
        return

    @abstractmethod
    def on_fields(self, fields: Sequence[tuple[bytes, bytes]], end: bool) -> None:
        """The fields of an answer, interim ones too, or its trailers; with `end` nothing comes after them."""

    @abstractmethod
    def on_data(self, data: bytes, end: bool) -> None:
        """A part of the answer's body."""

    @abstractmethod
    def on_failure(self, failure: StreamFailure) -> None:
        """The stream has ended before its answer."""
