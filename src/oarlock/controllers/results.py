"""What a reconcile says of a key: `Result`, or `TerminalError`. See also: `controller`."""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass

__all__ = ["Result", "TerminalError"]


class TerminalError(Exception):
    """A failure that trying again wouldn't change: the key is left alone until its object changes."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile that went well may return: to be called again after this time, whatever changes until then.

    With `longest_s` the wait grows while the same key comes with such results, by half each time, up to that.
    It is for what others have to end, maybe never.
    """

    requeue_after_s: float
    longest_s: float | None = None

    def __post_init__(self) -> None:
        if not self.requeue_after_s >= 0:
            raise ValueError(f"requeue_after_s={self.requeue_after_s}: give a number of seconds")
        if self.longest_s is not None and not 0 < self.requeue_after_s <= self.longest_s:
            raise ValueError(f"longest_s={self.longest_s}: give at least requeue_after_s, which is then above 0")

    def wait_s(self, before: int) -> float:
        """How long to wait after `before` such results in a row."""
        if self.longest_s is None:
            return self.requeue_after_s
        return min(self.requeue_after_s * 1.5 ** min(before, 100), self.longest_s)
