"""Compaction: publish the compacted revision, then remove the rows, a few at a time. And another epoch: all at once.

Rows up to R are removed if another row up to R replaced them, and deletions up to R always. What is left is
the state at R: live values, and the previous values of later changes. Only rows newer than
the last sweep are read, so the cost is that of what is removed, not of what is kept.

All are run in a transaction that has the lock. Must not know: when to compact. See also: `oarlock.storage.compactor`,
which knows.
"""

from __future__ import annotations

import secrets

from oarlock.storage.backend import EPOCH_GAP, Compacted, FutureRevision, Rev
from oarlock.storage.sql.dialect import Dialect, Statement, StatementSteps
from oarlock.storage.sql.reads import read_meta

__all__ = ["begin_epoch", "publish", "same_store", "sweep"]

_WINDOW_REVS = 1_000
"""Revisions per transaction: a few milliseconds in which nobody else commits."""


def publish(dialect: Dialect, rev: Rev) -> StatementSteps[None]:
    """From now on refuse history before `rev`.

    Safe against concurrent compaction: `meta` is read in the transaction.
    """
    meta = yield from read_meta(dialect)
    if rev > meta.rev:
        raise FutureRevision(meta.rev)
    if rev <= meta.compact_rev:
        raise Compacted(meta.compact_rev, meta.rev)
    yield Statement(dialect.publish_compaction, (rev,))


def sweep(dialect: Dialect) -> StatementSteps[bool]:
    """Remove the rows of the next window; returns whether there is more. After a crash it continues where it was."""
    meta = yield from read_meta(dialect)
    if meta.swept_rev >= meta.compact_rev:
        return False
    window = (meta.swept_rev, min(meta.swept_rev + _WINDOW_REVS, meta.compact_rev))
    # A deleted row is removed in the same transaction as its deletion: without the deletion it would look live.
    yield Statement(dialect.sweep_replaced, window)
    yield Statement(dialect.sweep_deletions, window)
    yield Statement(dialect.note_sweep, (window[1],))
    return window[1] < meta.compact_rev


def begin_epoch(dialect: Dialect, above: Rev) -> StatementSteps[Rev]:
    """Begin another epoch above `above`; returns its first revision. Removes all history in the same transaction."""
    meta = yield from read_meta(dialect)
    yield Statement(dialect.publish_compaction, (meta.rev,))
    while (yield from sweep(dialect)):
        pass
    rev = max(meta.rev, above) + EPOCH_GAP
    epoch = f"{meta.epoch.partition('-')[0]}-{secrets.token_hex(8)}"
    yield Statement(dialect.note_epoch, (rev, rev, rev, epoch))
    return rev


def same_store(epoch: str, other: str) -> bool:
    """Whether both are epochs of one store: all those of a store begin alike."""
    return epoch.partition("-")[0] == other.partition("-")[0]
