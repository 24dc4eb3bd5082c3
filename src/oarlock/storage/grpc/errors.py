"""`GrpcError`: how a call failed, and whether the server can have seen it.

Must not know: connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final
from urllib.parse import unquote_to_bytes

__all__ = ["GrpcCode", "GrpcError", "error_of_trailers"]


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
