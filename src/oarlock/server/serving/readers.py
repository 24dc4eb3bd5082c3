"""Slow readers: how a client's pace is measured, when it is too slow, and who is cut when memory runs short.

A client that takes a byte now and then is as slow as one that takes nothing: what counts is whether it takes
`progress_bytes` of its `ConnectionLimits` within `stall_timeout_s`. An answer that ends by itself must be taken at
that pace, and whole within `answer_timeout_s`; one that goes on may wait for as long as it likes while little is kept.
Must not know: protocols. Next: `config` for the limits, ``endpoints.unsent`` for the budget of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from oarlock.endpoints.unsent import Unsent
from oarlock.server.serving.config import ConnectionLimits

__all__ = ["BUDGET", "CONTROL", "HARD", "SLOTS", "SLOW", "TIMEOUT", "Pace", "SlowReader", "free_slots", "relieve"]

SLOW = "slow"
TIMEOUT = "timeout"
HARD = "backlog"
CONTROL = "unread"
BUDGET = "budget"

SLOTS = "in-flight"

STALLED_S = 3.0
"""How long an answer stands still before it may have to go for others that are turned away, in seconds."""

RELIEVED = 0.75
"""When readers are cut to keep the budget, this part of it is reached before the rest may stay."""


class Pace:
    """How fast one reader takes what is waiting for it. It hasn't taken much `since` then (monotonic seconds)."""

    __slots__ = ("_mark", "_tolerated", "since")

    def __init__(self, now: float) -> None:
        self._mark = 0
        self._tolerated = now
        self.since = now

    def look(self, now: float, waiting: bool, taken: int, enough: int) -> None:
        """`taken` is what it has taken in all; `enough` of that since the last mark is progress."""
        if not waiting or taken - self._mark >= enough:
            self._mark = taken
            self.since = now

    def tolerate(self, now: float) -> None:
        """What waits at the moment may wait for as long as it likes."""
        self._tolerated = now

    def verdict(self, now: float, limits: ConnectionLimits, began: float | None) -> str:
        """Why a reader is to be cut, ``""`` when it isn't. `began` is when an answer that ends by itself began."""
        if now - max(self.since, self._tolerated) > limits.stall_timeout_s:
            return SLOW
        return TIMEOUT if began is not None and now - began > limits.answer_timeout_s else ""


class SlowReader(NamedTuple):
    """Somebody who hasn't taken all of his answer: `held` bytes are kept for him, or more is made as he reads.

    `ends` tells of an answer that ends by itself. `cut` ends it now, for a reason.
    """

    since: float
    held: int
    ends: bool
    cut: Callable[[str], None]


def free_slots(readers: Iterable[SlowReader], now: float, count: int) -> int:
    """Cut `count` answers at most that end by themselves and have stood still for a while: how many.

    They count as requests in progress, and others are turned away because of them.
    """
    stalled = [one for one in readers if one.ends and now - one.since >= STALLED_S]
    stalled.sort(key=lambda one: one.since)
    for reader in stalled[:count]:
        reader.cut(SLOTS)
    return len(stalled[:count])


def relieve(readers: Iterable[SlowReader], unsent: Unsent) -> int:
    """Cut readers, the slowest first, until the budget is kept again with something to spare: how many.

    Bytes that others wait for too stay when one of them is cut, so this may have to be done again.
    """
    excess = unsent.size - unsent.limit * RELIEVED
    cut = 0
    for reader in sorted([one for one in readers if one.held], key=lambda one: (one.since, -one.held)):
        if excess <= 0:
            break
        reader.cut(BUDGET)
        excess -= reader.held
        cut += 1
    return cut
