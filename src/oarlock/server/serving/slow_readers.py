"""Slow readers: measures how fast clients read, and cuts the slowest when memory runs short.

A client that reads a byte now and then is as slow as one that reads nothing: it must read `progress_bytes` of its
`ConnectionLimits` within `stall_timeout_s`. A finite answer must be read at that pace, and whole within
`answer_timeout_s`; an open-ended one may wait for any time while few bytes are buffered.
Must not know: protocols. See also: `config` for the limits, ``endpoints.unsent`` for the budget of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from oarlock.endpoints.unsent import Unsent
from oarlock.server.serving.config import ConnectionLimits

__all__ = ["BUDGET", "CONTROL", "HARD", "SLOW", "TIMEOUT", "Pace", "SlowReader", "cut_slowest"]

SLOW = "slow"
TIMEOUT = "timeout"
HARD = "backlog"
CONTROL = "unread"
BUDGET = "budget"

BUDGET_AFTER_CUT = 0.75
"""When readers are cut for the budget, it is brought down to this part of the limit."""


class Pace:
    """The pace of one reader. Its last progress was at `progress_at` (monotonic seconds)."""

    __slots__ = ("_counted", "_tolerated", "progress_at")

    def __init__(self, now: float) -> None:
        self._counted = 0
        self._tolerated = now
        self.progress_at = now

    def update(self, now: float, waiting: bool, accepted: int, enough: int) -> None:
        """`accepted` is what it has read in all; `enough` of that since the last progress is progress."""
        if not waiting or accepted - self._counted >= enough:
            self._counted = accepted
            self.progress_at = now

    def tolerate(self, now: float) -> None:
        """What is buffered at the moment may wait for any time."""
        self._tolerated = now

    def verdict(self, now: float, limits: ConnectionLimits, started_at: float | None) -> str:
        """Why a reader is to be cut, ``""`` if it isn't. `started_at` is when a finite answer began."""
        if now - max(self.progress_at, self._tolerated) > limits.stall_timeout_s:
            return SLOW
        return TIMEOUT if started_at is not None and now - started_at > limits.answer_timeout_s else ""


class SlowReader(NamedTuple):
    """A client that hasn't read all of its answer: `buffered` bytes wait for it, or more is produced as it reads.

    `cut` ends it now, for a reason.
    """

    progress_at: float
    buffered: int
    cut: Callable[[str], None]


def cut_slowest(readers: Iterable[SlowReader], unsent: Unsent) -> int:
    """Cut the slowest readers until the budget is kept with something to spare; returns how many.

    Bytes that other clients wait for too aren't freed with one of them, so this may have to be repeated.
    """
    excess = unsent.size - unsent.limit * BUDGET_AFTER_CUT
    cut = 0
    for reader in sorted(
        [candidate for candidate in readers if candidate.buffered],
        key=lambda candidate: (candidate.progress_at, -candidate.buffered),
    ):
        if excess <= 0:
            break
        reader.cut(BUDGET)
        excess -= reader.buffered
        cut += 1
    return cut
