"""`TokenBucket`: rate limit with bursts. `TurnBudget`: work limit for one turn of the event loop.

See also: `http2.connection`.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.storage.pacing import SLICE_S

__all__ = ["TokenBucket", "TurnBudget"]


class TokenBucket:
    """A token bucket. Full at first; `take` says whether there was enough in it."""

    __slots__ = ("_at", "_burst", "_left", "_per_s")

    def __init__(self, per_s: float, burst: int, now: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = float(burst)
        self._at = now

    def take(self, count: int, now: float) -> bool:
        """Take `count` tokens; False if there aren't enough. `now` is in monotonic seconds."""
        left = self._left - count
        if left < 0:  # only then is the time that passed worth looking at
            left = min(float(self._burst), self._left + (now - self._at) * self._per_s) - count
            self._at = now
        self._left = left
        return left >= 0


class TurnBudget:
    """What one connection may start in one turn of the event loop: `most` requests, within one slice of time.

    At least one is always allowed.
    """

    __slots__ = ("_monotonic", "_most", "_until")

    def __init__(self, most: int, monotonic: Callable[[], float]) -> None:
        self._most = most
        self._monotonic = monotonic
        self._until = 0.0

    def take(self) -> bool:
        """Whether one more may be started; if so it is counted."""
        if self._until == 0.0:
            self._until = self._monotonic() + SLICE_S
        elif self._most <= 0 or self._monotonic() > self._until:
            return False
        self._most -= 1
        return True
