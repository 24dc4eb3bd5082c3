"""`RefusalHistory`: how long clients whose requests were refused are told to wait.

Source: k8s.io/apiserver ``util/flowcontrol/dropped_requests_tracker``.
"""

from __future__ import annotations

from collections import deque

LONGEST_S = 32
_MANY = 3
"""Refusals a second that are so many that clients should wait longer."""


class RefusalHistory:
    """The refusals of one level by second; `seconds` is the ``Retry-After`` they lead to.

    It doubles while there are many refusals, and falls by one a second when there are few.
    """

    __slots__ = ("_changed", "_count", "_past", "_second", "seconds")

    def __init__(self) -> None:
        self.seconds = 1
        self._second = 0
        self._count = 0
        self._changed = 0
        self._past: deque[tuple[int, int]] = deque()

    def add(self, now: float) -> int:
        """Count a refused request; returns its Retry-After in seconds."""
        second = int(now)
        if second != self._second:
            if self._count:
                self._past.append((self._second, self._count))
            self._second, self._count = second, 0
            self._adapt(second)
        self._count += 1
        return self.seconds

    def _adapt(self, second: int) -> None:
        while self._past and second - self._past[0][0] > LONGEST_S:
            self._past.popleft()
        recent = sum(refused for at, refused in self._past if second - at <= self.seconds)
        if second - self._changed >= self.seconds and recent >= _MANY * self.seconds:
            self.seconds = min(LONGEST_S, 2 * self.seconds)
            self._changed = second
        elif recent < self.seconds and self.seconds > 1:
            self.seconds -= 1
