"""Compaction: publish the compacted revision, then remove the rows, a few at a time. And another epoch: all at once.

Rows up to R are removed if another row up to R replaced them, and deletions up to R always. What is left is
the state at R: live values, and the previous values of later changes. Only rows newer than
the last sweep are read, so the cost is that of what is removed, not of what is kept.

Must not know: when to compact. See also: `oarlock.storage.compactor`, which knows.
"""

from __future__ import annotations

import secrets

import apsw

from oarlock.storage.backend import EPOCH_GAP, Compacted, FutureRevision, Rev
from oarlock.storage.sqlite.schema import read_meta

__all__ = ["begin_epoch", "publish", "same_store", "sweep"]

_WINDOW_REVS = 1_000
"""Revisions per transaction: a few milliseconds in which nobody else commits."""


def publish(connection: apsw.Connection, rev: Rev) -> None:
    """From now on refuse history before `rev`.

    Safe against concurrent compaction: `meta` is read in the transaction.
    """
    meta = read_meta(connection)
    if rev > meta.rev:
        raise FutureRevision(meta.rev)
    if rev <= meta.compact_rev:
        raise Compacted(meta.compact_rev, meta.rev)
    connection.execute("UPDATE meta SET compact_rev = ?", (rev,))


def sweep(connection: apsw.Connection) -> bool:
    """Remove the rows of the next window; returns whether there is more. After a crash it continues where it was."""
    meta = read_meta(connection)
    if meta.swept_rev >= meta.compact_rev:
        return False
    window = (meta.swept_rev, min(meta.swept_rev + _WINDOW_REVS, meta.compact_rev))
    # A deleted row is removed in the same transaction as its deletion: without the deletion it would look live.
    connection.execute(
        "DELETE FROM log WHERE rev IN (SELECT prev_rev FROM log WHERE rev > ? AND rev <= ? AND prev_rev > 0)", window
    )
    connection.execute("DELETE FROM log WHERE rev > ? AND rev <= ? AND op = 3", window)
    connection.execute("UPDATE meta SET swept_rev = ?", (window[1],))
    return window[1] < meta.compact_rev


def begin_epoch(connection: apsw.Connection, above: Rev) -> Rev:
    """Begin another epoch above `above`; returns its first revision. Removes all history in the same transaction."""
    meta = read_meta(connection)
    connection.execute("UPDATE meta SET compact_rev = rev")
    while sweep(connection):
        pass
    rev = max(meta.rev, above) + EPOCH_GAP
    epoch = f"{meta.epoch.partition('-')[0]}-{secrets.token_hex(8)}"
    connection.execute("UPDATE meta SET rev = ?1, compact_rev = ?1, swept_rev = ?1, epoch = ?2", (rev, epoch))
    return rev


def same_store(epoch: str, other: str) -> bool:
    """Whether both are epochs of one store: all those of a store begin alike."""
    return epoch.partition("-")[0] == other.partition("-")[0]
