"""`GrpcCall`: a call of a method, with its messages in both directions; `GrpcError`: how a call failed.

An error says whether the server can have seen the call. Must not know: connections.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

from oarlock.http2.frames import ErrorCode
from oarlock.net.http2_connection import ClientStream, StreamFailure

__all__ = [
    "CallMetadata",
    "CallSender",
    "GrpcCall",
    "GrpcCode",
    "GrpcError",
    "GrpcStream",
    "UnaryCall",
    "error_of_trailers",
    "prefixed",
]


class GrpcCode(IntEnum):
    """The status codes of gRPC."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(Exception):
    """A call that failed. `unsent`: the server has certainly not begun it, so that it may be repeated."""

    def __init__(self, code: GrpcCode, details: str, *, unsent: bool = False) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code: Final = code
        self.details: Final = details
        self.unsent: Final = unsent


_OF_HTTP: Final = {
    400: GrpcCode.INTERNAL,
    401: GrpcCode.UNAUTHENTICATED,
    403: GrpcCode.PERMISSION_DENIED,
    404: GrpcCode.UNIMPLEMENTED,
    429: GrpcCode.UNAVAILABLE,
    502: GrpcCode.UNAVAILABLE,
    503: GrpcCode.UNAVAILABLE,
    504: GrpcCode.UNAVAILABLE,
}


def error_of_trailers(fields: Mapping[bytes, bytes]) -> GrpcError | None:
    """What the last fields of an answer say: None for success."""
    status = fields.get(b"grpc-status")
    if status is None:
        http = fields.get(b":status", b"200")
        number = int(http) if http.isdigit() else 0
        if number != 200:
            return GrpcError(_OF_HTTP.get(number, GrpcCode.UNKNOWN), f"the answer has HTTP status {number}")
        return GrpcError(GrpcCode.UNKNOWN, "the answer ended without a status")
    if status == b"0":
        return None
    details = unquote_to_bytes(fields.get(b"grpc-message", b"")).decode(errors="replace")
    number = int(status) if status.isdigit() and len(status) <= 2 else int(GrpcCode.UNKNOWN)
    return GrpcError(GrpcCode(number) if number <= max(GrpcCode) else GrpcCode.UNKNOWN, details)


QUEUED_BYTES = 16 << 20
"""How much of a stream waits to be read, before its sender is made to wait."""

CallMetadata = tuple[tuple[str, str], ...]
"""Names in lower case, and values: the header fields of a call besides the protocol's own."""

_PREFIX = Struct(">BI")
_PREFIX_BYTES: Final = 5
_CANCEL: Final = 8
_OF_RESETS: Final[Mapping[int, GrpcCode]] = {
    _CANCEL: GrpcCode.CANCELLED,
    ErrorCode.REFUSED_STREAM: GrpcCode.UNAVAILABLE,
}


def prefixed(message: bytes) -> bytes:
    return _PREFIX.pack(0, len(message)) + message


class CallSender(Protocol):
    """What a call needs of its connection. `largest` is how many bytes a message may have that comes."""

    largest: int

    def send(self, stream: ClientStream, data: bytes) -> None:
        """Send as soon as flow control allows."""
        ...

    def give_up(self, stream: ClientStream) -> None:
        """Reset the stream: nothing is received for it any more."""
        ...

    def take_in(self, stream: ClientStream) -> None:
        """Allow the sender as many bytes as have been taken from the call since."""
        ...


class GrpcCall(ClientStream):
    """One stream of a connection."""

    __slots__ = ("_buffer", "headers_seen", "sender")

    def __init__(self, sender: CallSender) -> None:
        super().__init__()
        self.sender = sender
        self.headers_seen = False
        self._buffer = bytearray()

    def on_fields(self, fields: Sequence[tuple[bytes, bytes]], end: bool) -> None:
        named = dict(fields)
        if end:
            self.end(error_of_trailers(named))
        elif not self.headers_seen:
            status = named.get(b":status", b"")
            if status.startswith(b"1"):
                return
            self.headers_seen = True
            if status != b"200":
                self.cancel(error_of_trailers(named) or GrpcError(GrpcCode.UNKNOWN, "an answer without a status"))
            elif not named.get(b"content-type", b"").startswith(b"application/grpc"):
                self.cancel(GrpcError(GrpcCode.UNIMPLEMENTED, "the peer isn't a gRPC server"))

    def on_data(self, data: bytes, end: bool) -> None:
        try:
            self._feed(data)
        except GrpcError as error:
            self.cancel(error)
        if end:
            self.end(error_of_trailers({}))

    def on_failure(self, failure: StreamFailure) -> None:
        code = GrpcCode.UNAVAILABLE
        if failure.code is not None:
            code = _OF_RESETS.get(failure.code, GrpcCode.INTERNAL)
        self.end(GrpcError(code, failure.why, unsent=failure.unsent))

    def _feed(self, data: bytes) -> None:
        """Take in a part of the answer. Raises `GrpcError` for what is no message."""
        buffer = self._buffer
        if not buffer and len(data) >= _PREFIX_BYTES:
            compressed, size = _PREFIX.unpack_from(data)
            if len(data) == size + _PREFIX_BYTES and not compressed:
                self.on_message(data[_PREFIX_BYTES:])
                return
        buffer += data
        while len(buffer) >= _PREFIX_BYTES:
            compressed, size = _PREFIX.unpack_from(buffer)
            if compressed:
                raise GrpcError(GrpcCode.INTERNAL, "the answer is compressed, which wasn't requested")
            if size > self.sender.largest:
                why = f"message larger than max ({size} vs. {self.sender.largest})"
                raise GrpcError(GrpcCode.RESOURCE_EXHAUSTED, why)
            if len(buffer) < size + _PREFIX_BYTES:
                return
            message = bytes(memoryview(buffer)[_PREFIX_BYTES : _PREFIX_BYTES + size])
            del buffer[: _PREFIX_BYTES + size]
            self.on_message(message)

    def end(self, error: GrpcError | None) -> None:
        """The answer has ended. Only the first end counts."""
        if self.ended:
            return
        self.ended = True
        if error is None and self._buffer:
            error = GrpcError(GrpcCode.INTERNAL, "the answer ended within a message")
        self._buffer.clear()
        self.unsent.clear()
        self.on_end(error)

    def cancel(self, error: GrpcError) -> None:
        """End the call from this side."""
        if not self.ended:
            self.sender.give_up(self)
            self.end(error)

    @abstractmethod
    def on_message(self, message: bytes) -> None: ...

    @abstractmethod
    def on_end(self, error: GrpcError | None) -> None: ...


class UnaryCall(GrpcCall):
    """One message there, one back."""

    __slots__ = ("_message", "answer")

    def __init__(self, sender: CallSender, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(sender)
        self.answer: asyncio.Future[bytes] = loop.create_future()
        self._message: bytes | None = None

    def expire(self) -> None:
        self.cancel(GrpcError(GrpcCode.DEADLINE_EXCEEDED, "Deadline Exceeded", unsent=not self.begun))

    def on_message(self, message: bytes) -> None:
        if self._message is not None:
            raise GrpcError(GrpcCode.INTERNAL, "more than one message came for a unary call")
        self._message = message

    def on_end(self, error: GrpcError | None) -> None:
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_exception(error)
        elif self._message is None:
            self.answer.set_exception(GrpcError(GrpcCode.INTERNAL, "no message came for a unary call"))
        else:
            self.answer.set_result(self._message)


class GrpcStream(GrpcCall):
    """Messages both ways, until one side ends it. One task reads."""

    __slots__ = ("_error", "_loop", "_messages", "_queued", "_waiter")

    def __init__(self, sender: CallSender, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(sender)
        self._loop = loop
        self._messages: deque[bytes] = deque()
        self._queued = 0
        self._error: GrpcError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def hungry(self) -> bool:
        return self._queued < QUEUED_BYTES

    def write(self, message: bytes) -> None:
        """Send a message. Does nothing once the stream has ended: `read` tells."""
        if not self.ended:
            self.sender.send(self, prefixed(message))

    async def read(self) -> bytes | None:
        """The next message; None after the last. Raises `GrpcError`."""
        while not self._messages:
            if self.ended:
                if self._error is not None:
                    raise self._error
                return None
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._messages.popleft()
        self._queued -= len(message)
        if not self.ended and self.hungry:
            self.sender.take_in(self)
        return message

    def close(self) -> None:
        """End the stream, and forget what was not read."""
        self.cancel(GrpcError(GrpcCode.CANCELLED, "the stream was closed"))
        self._messages.clear()

    def on_message(self, message: bytes) -> None:
        self._messages.append(message)
        self._queued += len(message)
        self._wake()

    def on_end(self, error: GrpcError | None) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
