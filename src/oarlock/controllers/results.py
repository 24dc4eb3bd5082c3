"""What a reconcile says of a key: `Result`, or `TerminalError`. See also: `controller`."""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass

__all__ = ["Result", "TerminalError"]


class TerminalError(Exception):
    """A failure that trying again wouldn't change: the key is left alone until its object changes."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile that went well may return: to be called again after this time, whatever changes until then."""

    requeue_after_s: float

    def __post_init__(self) -> None:
        if not self.requeue_after_s >= 0:
            raise ValueError(f"requeue_after_s={self.requeue_after_s}: give a number of seconds")
