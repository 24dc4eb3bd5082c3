"""The pods that wait to be scheduled: ready ones by priority, those that failed until something changes.

Source: kube-scheduler 1.36 ``backend/queue``, in behaviour.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from oarlock_cluster.scheduling.state import PodState

__all__ = ["SchedulingQueue"]

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 10.0
FLUSH_S = 300.0
"""A pod that failed is tried again after this, though nothing has changed."""


@dataclass(slots=True)
class _Entry:
    pod: PodState
    attempts: int = 0
    failed_at: float = 0.0
    due: float | None = None
    """When one that failed may be tried; None while it waits for a change."""
    added: int = 0


@dataclass(slots=True)
class SchedulingQueue:
    """Pods by uid. What failed waits for a change (`wake`), and then for its back-off."""

    now: Callable[[], float]
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _failed: dict[str, _Entry] = field(default_factory=dict)
    _ready: list[tuple[int, int, str]] = field(default_factory=list)
    _count: int = 0

    def put(self, pod: PodState, *, changed: bool = True) -> None:
        """Add a pod, or its new state. If `changed`, that may make it schedulable."""
        entry = self._entries.get(pod.uid)
        if entry is None:
            self._count += 1
            entry = self._entries[pod.uid] = _Entry(pod, added=self._count)
            self._push(entry)
            return
        entry.pod = pod
        if changed and entry.due is None and pod.uid in self._failed:
            entry.due = entry.failed_at + self._backoff_s(entry)

    def drop(self, uid: str) -> None:
        """The pod waits no more."""
        self._entries.pop(uid, None)
        self._failed.pop(uid, None)

    def take(self) -> PodState | None:
        """The first of those that may be tried now; it stays until `drop` or `failed` says what became of it."""
        now = self.now()
        for entry in list(self._failed.values()):
            if now >= (entry.failed_at + FLUSH_S if entry.due is None else entry.due):
                self._push(entry)
        while self._ready:
            _, added, uid = heapq.heappop(self._ready)
            first = self._entries.get(uid)
            if first is not None and first.added == added and uid not in self._failed:
                return first.pod
        return None

    def failed(self, uid: str, *, retry: bool = False) -> None:
        """It found no node; with `retry` that may be over after its back-off, else after a change."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.attempts += 1
            self._failed[uid] = entry
            entry.failed_at = self.now()
            entry.due = entry.failed_at + self._backoff_s(entry) if retry else None

    def wake(self, which: Callable[[PodState], bool] = lambda pod: True) -> None:
        """Something has changed that may matter to those that failed."""
        for entry in self._failed.values():
            if entry.due is None and which(entry.pod):
                entry.due = entry.failed_at + self._backoff_s(entry)

    def wait_s(self) -> float | None:
        """How long until one may be tried; None if none will."""
        times = [entry.failed_at + FLUSH_S if entry.due is None else entry.due for entry in self._failed.values()]
        return max(0.0, min(times) - self.now()) if times else None

    def _push(self, entry: _Entry) -> None:
        entry.due = None
        self._failed.pop(entry.pod.uid, None)
        heapq.heappush(self._ready, (-entry.pod.priority, entry.added, entry.pod.uid))

    @staticmethod
    def _backoff_s(entry: _Entry) -> float:
        return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(max(0, entry.attempts - 1), 10))
