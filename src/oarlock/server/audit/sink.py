"""`AuditSink`: where audit events go.

Must not know: requests. Source: k8s.io/apiserver ``audit/metrics``, ``server/options/audit``. See also: `sinks`,
`webhook_sink`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import field

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.meta.metrics import MetricFamily
from oarlock.policy.audit.event import AuditEvent
from oarlock.policy.audit.policy import AuditPolicy


@dataclass(slots=True)
class AuditCounts:
    """The numbers of ``apiserver_audit_…``.

    `levels` counts requests by the policy's level, `errors` events that were lost by the part that lost them,
    `rejected` requests that failed because they couldn't be recorded.
    """

    events: int = 0
    levels: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    rejected: int = 0

    def families(self) -> Iterator[MetricFamily]:
        """What has been counted, as metrics."""
        for name, about, label, counts in (
            ("event", "Audit events given to the sinks.", "", {"": self.events}),
            ("level", "Requests by the policy's level.", "level", self.levels),
            ("error", "Audit events that were lost.", "plugin", self.errors),
            ("requests_rejected", "Requests refused because they couldn't be recorded.", "", {"": self.rejected}),
        ):
            samples = {(value,) if label else (): count for value, count in counts.items()}
            labels = (label,) if label else ()
            yield MetricFamily(f"apiserver_audit_{name}_total", about, samples, labels, "counter")


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


CLOSE_S = 10.0


class AuditError(Exception):
    """A file of the audit can't be used. One line that names it, the field, and what to do."""


@dataclass(frozen=True, slots=True)
class ServerAudit:
    """The policy, and the sinks that get what it records."""

    policy: AuditPolicy
    sinks: Sequence[AuditSink]
    counts: AuditCounts

    async def close(self) -> None:
        """Write what is waiting, for some seconds at most, and close the sinks."""
        for sink in self.sinks:
            await sink.close(CLOSE_S)
