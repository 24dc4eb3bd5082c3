"""`AuditCounts`: what is counted of audit events. Source: k8s.io/apiserver ``audit/metrics``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from oarlock.meta.dataclass import dataclass
from oarlock.meta.metrics import MetricFamily

__all__ = ["AuditCounts"]


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
