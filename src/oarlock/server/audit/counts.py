"""`AuditCounts`: what is counted of audit events. Source: k8s.io/apiserver ``audit/metrics``."""

from __future__ import annotations

from dataclasses import field, replace

from oarlock.meta.dataclass import dataclass

__all__ = ["AuditCounts"]


@dataclass(slots=True)
class AuditCounts:
    """The numbers of ``apiserver_audit_…``, of one process or several.

    `levels` counts requests by the policy's level, `errors` events that were lost by the part that lost them,
    `rejected` requests that failed because they couldn't be recorded.
    """

    events: int = 0
    levels: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    rejected: int = 0

    def copy(self) -> AuditCounts:
        return replace(self, levels=dict(self.levels), errors=dict(self.errors))
