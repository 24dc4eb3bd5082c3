"""Which host of a URL may be written to: the one that takes writes, on the newest timeline of the database.

After a failover the old primary may come back and take writes, too. PostgreSQL doesn't stop that; its *timeline*
tells, which is a greater number after each promotion. So all hosts are looked at before one is used, standbys too.
One whose timeline is older than that of another, or older than one that was seen before, is refused.

Must not know: tables, sessions. See also: `driver`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import StorageError, Unavailable

__all__ = ["Lineage", "SeenHost", "choose_host", "look_at", "parse_lineage", "refuse_older"]

_LOOK: Final = """
SELECT system_identifier::text,
  CASE WHEN pg_is_in_recovery()
    THEN greatest((SELECT timeline_id FROM pg_control_checkpoint()),
      (SELECT max(received_tli) FROM pg_stat_wal_receiver))
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END,
  NOT pg_is_in_recovery(),
  current_setting('transaction_read_only') = 'off',
  extract(epoch FROM pg_postmaster_start_time())::text
FROM pg_control_system()
"""

_TEXT: Final = re.compile(r"system (\S+) timeline ([1-9][0-9]{0,9})\Z")

_FENCE: Final = "stop it, and make it a standby of the new primary"


class Lineage(NamedTuple):
    """A database, and in which of its histories it is."""

    system: str
    timeline: int

    def __str__(self) -> str:
        return f"system {self.system} timeline {self.timeline}"

    def is_older(self, other: Lineage | None) -> bool:
        """Whether it is the same database in an older history."""
        return other is not None and self.system == other.system and self.timeline < other.timeline


def parse_lineage(text: str) -> Lineage | None:
    """What ``str`` made of one; None for anything else."""
    match = _TEXT.match(text)
    return Lineage(match[1], int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class SeenHost:
    """A host that was connected to. `server` is another after each start of a server, and for each server."""

    name: str
    connection: Any
    lineage: Lineage
    primary: bool
    writable: bool
    server: str


async def look_at(name: str, connection: Any) -> SeenHost:
    """What the host is. Raises the driver's own errors."""
    system, timeline, primary, writable, server = await connection.fetchrow(_LOOK)
    return SeenHost(name, connection, Lineage(system, timeline), primary, primary and writable, server)


def choose_host(hosts: Sequence[SeenHost], known: Lineage | None, preferred: str) -> SeenHost:
    """The host to use, of all that could be reached. `known` was seen before; `preferred` is the host used last.

    Raises `StorageError` with words that say what to do; `Unavailable` when another host may be the right one.
    """
    writable = [host for host in hosts if host.writable]
    if not writable:
        raise Unavailable(
            "none of the hosts takes writes: they are standbys, or have default_transaction_read_only: name the "
            "primary too",
            5.0,
        )
    same = [host for host in writable if known is not None and host.lineage.system == known.system]
    candidates = same or writable
    first = candidates[0]
    for host in candidates:
        if host.lineage.system != first.lineage.system:
            raise StorageError(f"{first.name} and {host.name} are different databases: name only the hosts of one")
    best = max(candidates, key=lambda host: host.lineage.timeline)
    refuse_older(best, known)
    for host in hosts:
        if best.lineage.is_older(host.lineage):
            raise Unavailable(
                f"{best.name} takes writes, and is on the older timeline {best.lineage.timeline}; {host.name} is on "
                f"{host.lineage.timeline}: {_FENCE}",
                5.0,
            )
    equals = [host for host in candidates if host.lineage == best.lineage]
    for host in equals:
        if host.name == preferred:
            return host
    for host in equals:
        if host.server != best.server:
            raise Unavailable(
                f"{best.name} and {host.name} both take writes, on the same timeline {best.lineage.timeline}: stop the "
                "one that isn't the primary",
                5.0,
            )
    return best


def refuse_older(host: SeenHost, known: Lineage | None) -> None:
    """Raise `Unavailable` for a host whose timeline is older than one that was seen."""
    if host.lineage.is_older(known) and known is not None:
        raise Unavailable(
            f"{host.name} is on the older timeline {host.lineage.timeline} of its database, and timeline "
            f"{known.timeline} was seen: it isn't used, since what was written after the failover is elsewhere; "
            f'{_FENCE}. If an older state was restored on purpose, take "lineage" out of the file oarlock.seen',
            5.0,
        )
