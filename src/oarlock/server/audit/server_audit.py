"""`ServerAudit`: what one server records of requests, and where. See also: `build`, which makes it from options."""

from __future__ import annotations

from collections.abc import Sequence

from oarlock.meta.dataclass import dataclass
from oarlock.policy.audit.policy import AuditPolicy
from oarlock.server.audit.counts import AuditCounts
from oarlock.server.audit.sink import AuditSink

__all__ = ["AuditError", "ServerAudit"]

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
