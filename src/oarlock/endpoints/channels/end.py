"""`Ending`: why a connection is over, and what the client is told of it. Next: `over_websocket`, `over_pipe`."""

from __future__ import annotations

from dataclasses import dataclass

from oarlock.meta.errors import StatusError

__all__ = [
    "BAD_PAYLOAD",
    "GOING_AWAY",
    "GONE",
    "INTERNAL_ERROR",
    "NORMAL",
    "POLICY",
    "PROTOCOL_ERROR",
    "TOO_BIG",
    "Ending",
]

NORMAL, GOING_AWAY, PROTOCOL_ERROR, BAD_PAYLOAD, POLICY, TOO_BIG, INTERNAL_ERROR = (
    *(1000, 1001, 1002, 1007, 1008, 1009, 1011),
)
"""Codes of a WebSocket's Close (RFC 6455 §7.4.1)."""


@dataclass(frozen=True, slots=True)
class Ending:
    """`code` and `why` are those of a WebSocket's Close, 0 for the usual one.

    `error` or else `exit_code` is the outcome; `told` is whether channel 3 says so.
    """

    code: int = 0
    why: str = ""
    exit_code: int = 0
    error: StatusError | None = None
    told: bool = True


GONE = Ending(told=False)
"""The client has left: nobody can be told anything."""
