"""`Bucket`: so many at once, so many per second, and no more. Next: `http2`."""

from __future__ import annotations

__all__ = ["Bucket"]


class Bucket:
    """A token bucket. Full at first; `take` says whether there was enough in it."""

    __slots__ = ("_at", "_burst", "_left", "_per_s")

    def __init__(self, per_s: float, burst: int, now: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = float(burst)
        self._at = now

    def take(self, count: int, now: float) -> bool:
        """Take `count`; False when it isn't there. `now` is in monotonic seconds."""
        left = self._left - count
        if left < 0:  # only then is the time that passed worth looking at
            left = min(float(self._burst), self._left + (now - self._at) * self._per_s) - count
            self._at = now
        self._left = left
        return left >= 0
