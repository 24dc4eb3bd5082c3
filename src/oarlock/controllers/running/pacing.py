"""How soon a key that failed is tried again: a back-off for each key, and a rate for all together.

Source: client-go ``util/workqueue/default_rate_limiters.go``.
"""

from __future__ import annotations

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass

__all__ = ["Backoff", "RetryBucket"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait after the first failure of a key, doubled after each one more, up to the longest. In seconds."""

    first_s: float = 0.005
    longest_s: float = 1000.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.longest_s:
            raise ValueError("a back-off begins above 0 and doesn't end below where it begins")

    def wait_s(self, failures: int) -> float:
        """How long to wait after this many failures in a row."""
        return min(self.first_s * 2.0 ** min(failures - 1, 60), self.longest_s)


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
