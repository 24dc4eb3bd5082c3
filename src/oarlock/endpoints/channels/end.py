"""`Ending`: why a connection ends, and what the client is told. See also: `over_websocket`, `over_pipe`."""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass
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
"""Status codes of a WebSocket Close frame (RFC 6455 §7.4.1)."""


@dataclass(frozen=True, slots=True)
class Ending:
    """`code` and `why` are those of the Close frame, 0 for a normal one.

    `error`, or else `exit_code`, is the outcome. `has_outcome` says whether it is sent, on channel 3.
    """

    code: int = 0
    why: str = ""
    exit_code: int = 0
    error: StatusError | None = None
    has_outcome: bool = True


GONE = Ending(has_outcome=False)
"""The client has disconnected."""
