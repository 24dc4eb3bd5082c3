"""`RetryBucket`: a rate for all keys that failed, whatever the back-off of each. See also: ``net.backoff``.

Source: client-go ``util/workqueue/default_rate_limiters.go``.
"""

from __future__ import annotations

from oarlock.meta.context import Clock

__all__ = ["RetryBucket"]


class RetryBucket:
    """A token bucket: `burst` retries at once, then `per_s` a second, whatever their keys."""

    def __init__(self, clock: Clock, per_s: float = 10.0, burst: int = 100) -> None:
        if per_s <= 0 or burst < 1:
            raise ValueError("a bucket has room for a token, and is refilled")
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._at = clock.monotonic()

    def reserve_s(self) -> float:
        """Take a token; returns how long to wait until it is there."""
        self._refill()
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._per_s)

    def take(self) -> bool:
        """Take a token if there is one."""
        self._refill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(float(self._burst), self._tokens + (now - self._at) * self._per_s)
        self._at = now
