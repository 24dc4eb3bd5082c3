"""`Backoff`: how long to wait before something that failed is tried again, longer with each failure in a row.

See also: `Pauses`, the waits of one loop; ``controllers.running.work_queue``, a rate for many keys together.
Source: client-go ``util/workqueue/default_rate_limiters.go``, apimachinery ``util/wait``.
"""

from __future__ import annotations

import random

from oarlock.meta.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait after the first failure, `factor` times as long after each one more, up to the longest. In seconds.

    With `jitter`, up to that share of it is added at random, so that not all who failed together come back together.
    """

    first_s: float = 0.005
    longest_s: float = 1000.0
    factor: float = 2.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.longest_s:
            raise ValueError("a back-off begins above 0 and doesn't end below where it begins")

    def wait_s(self, failures: int) -> float:
        """How long to wait after this many failures in a row."""
        wait_s = min(self.first_s * self.factor ** min(failures - 1, 60), self.longest_s)
        return wait_s * (1 + self.jitter * random.random()) if self.jitter else wait_s

    def pauses(self) -> Pauses:
        """The pauses of one loop."""
        return Pauses(self)


class Pauses:
    """The waits of one loop. `next_s` is the coming one, for logs; `failures` is how many came in a row."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.reset()

    def reset(self) -> None:
        """It worked."""
        self.failures = 0
        self.next_s = self._backoff.wait_s(1)

    def take(self) -> float:
        """It failed: how long to wait now."""
        wait_s = self.next_s
        self.failures += 1
        self.next_s = self._backoff.wait_s(self.failures + 1)
        return wait_s
