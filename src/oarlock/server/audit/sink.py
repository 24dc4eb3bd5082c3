"""`AuditSink`: where audit events go.

Must not know: requests. Source: k8s.io/apiserver ``audit/metrics``, ``server/options/audit``. See also: `log_sink`,
`webhook_sink`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.policy.audit.event import AuditEvent
from oarlock.server.audit.counts import AuditCounts

__all__ = ["AuditSink", "Failures", "SinkModes", "Truncation", "written_to_all"]

log = logging.getLogger("oarlock.audit")

LOG_INTERVAL_S = 10.0


class SinkModes:
    """How a sink treats the request that an event is about."""

    BATCH = "batch"
    """The request goes on at once; what finds the buffer full is dropped, and counted."""
    BLOCKING = "blocking"
    """The request waits until the event is written; if that fails, it goes on."""
    STRICT = "blocking-strict"
    """The request waits, and fails if the event of its receipt can't be written."""


class Failures:
    """Counts what a sink couldn't record, and logs it: at once, then every ten seconds at most."""

    def __init__(self, counts: AuditCounts, clock: Clock) -> None:
        self._counts = counts
        self._clock = clock
        self._due: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def report(self, plugin: str, events: int, why: str) -> None:
        errors = self._counts.errors
        errors[plugin] = errors.get(plugin, 0) + events
        lost = self._unlogged.get(plugin, 0) + events
        now = self._clock.monotonic()
        if now < self._due.get(plugin, now):
            self._unlogged[plugin] = lost
            return
        self._due[plugin], self._unlogged[plugin] = now + LOG_INTERVAL_S, 0
        log.error("audit %s: %d events are lost: %s", plugin, lost, why)


@dataclass(frozen=True, slots=True)
class Truncation:
    """Limits in bytes: a larger event loses its objects; one that is larger still is dropped."""

    event_bytes: int
    batch_bytes: int


class AuditSink(ABC):
    """Takes events, one after the other. `prompt`: no request ever waits for it, or fails because of it."""

    def __init__(self, truncation: Truncation | None, failures: Failures, *, prompt: bool) -> None:
        self.prompt = prompt
        self._truncation = truncation
        self._failures = failures

    def write(self, event: AuditEvent) -> Awaitable[bool] | bool:
        """Record an event: whether the request may go on; an awaitable if it must wait for that."""
        limit = self._truncation
        if limit is not None and len(event.line) > limit.event_bytes:
            if event.has_objects:
                event = event.without_objects()
            if len(event.line) > limit.event_bytes:
                self._failures.report("truncate", 1, f"an event is larger than {limit.event_bytes} bytes")
                return True
        return self._write(event)

    def write_all(self, events: Sequence[AuditEvent]) -> Sequence[Awaitable[bool] | bool]:
        """`write` of each."""
        return [self.write(event) for event in events]

    @abstractmethod
    def _write(self, event: AuditEvent) -> Awaitable[bool] | bool:
        """The same for an event that isn't too large."""

    @abstractmethod
    async def close(self, timeout_s: float) -> None:
        """Write what is waiting, for so many seconds at most."""


def written_to_all(sinks: Sequence[AuditSink], events: Sequence[AuditEvent]) -> Awaitable[bool] | bool:
    """Give events of a request to every sink: whether all of them agree that it goes on."""
    good = True
    waiting: list[Awaitable[bool]] = []
    for sink in sinks:
        for written in sink.write_all(events):
            if written is False:
                good = False
            elif written is not True:
                waiting.append(written)
    return _all(waiting, good) if waiting else good


async def _all(waiting: Sequence[Awaitable[bool]], good: bool) -> bool:
    for waiter in waiting:
        good = await waiter and good
    return good
