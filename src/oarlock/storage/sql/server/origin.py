"""Notices that the database's history isn't the one that was read before, and begins another epoch (R3).

``meta.origin`` says which server, in which of its histories, the epoch began on. When a standby was promoted, or a dump
restored, the server's own answer is another one; or its revision is below one that this process has seen. In both
cases writes may be lost whose revisions were given out.

Must not know: drivers. See also: `oarlock.storage.sql.compaction.begin_epoch`.
"""

from __future__ import annotations

import logging

from oarlock.storage.backend import Rev
from oarlock.storage.sql.compaction import begin_epoch
from oarlock.storage.sql.dialect import Dialect
from oarlock.storage.sql.reads import Meta, read_meta
from oarlock.storage.sql.server.session import DatabaseSession, Driver, run
from oarlock.storage.sql.statements import Statement, StatementSteps

__all__ = ["verify"]

log = logging.getLogger("oarlock.storage.sql")


async def verify(driver: Driver, session: DatabaseSession, seen: Rev) -> Meta:
    """The row of ``meta``, in a history that continues the one in which `seen` was seen.

    Begins another epoch if it has to be, which only the first of several processes does.
    """
    dialect = driver.dialect
    origin = await driver.origin(session)
    meta, why = await run(session, _compare(dialect, origin, seen))
    if not why:
        return meta
    await session.begin()
    # Somebody else may have done it while this process waited for the lock.
    meta, why = await run(session, _compare(dialect, origin, seen))
    if not why:
        await session.rollback()
        return meta
    meta = await run(session, _begin_again(dialect, origin, seen))
    await session.commit()
    log.warning("%s: %s: another epoch begins at revision %d, and clients list anew", driver.name, why, meta.rev)
    return meta


def _compare(dialect: Dialect, origin: str, seen: Rev) -> StatementSteps[tuple[Meta, str]]:
    """The row of ``meta``, and why it isn't of the history that was seen; ``""`` if it is."""
    rows = yield Statement(dialect.origin)
    meta, recorded = Meta(*rows[0][:4]), rows[0][4]
    why = ""
    if meta.rev < seen:
        why = f"the store is at revision {meta.rev} and was at {seen}"
    elif recorded != origin:
        why = f"the database was restored, or another server took over (it is {origin}, it was {recorded})"
    return meta, why


def _begin_again(dialect: Dialect, origin: str, seen: Rev) -> StatementSteps[Meta]:
    yield from begin_epoch(dialect, seen)
    yield Statement(dialect.note_origin, (origin,))
    return (yield from read_meta(dialect))
