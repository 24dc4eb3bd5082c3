"""Compacts a store now. See also: `oarlock.storage.compactor`, which does it again and again."""

from __future__ import annotations

from oarlock.storage.backend import Compacted, Rev, StorageError
from oarlock.storage.care.opening import opened

__all__ = ["compact"]


async def compact(url: str, revision: Rev | None = None) -> tuple[Rev, Rev]:
    """Remove history before `revision`, by default the current one; returns the compacted and the current revision.

    If that much is compacted already, nothing happens. Raises `StorageError` with a one-line message,
    `FutureRevision` for a revision that the store hasn't reached.
    """
    if revision is not None and revision < 1:
        raise StorageError(f"cannot compact to revision {revision}: revisions begin at 1")
    async with opened(url) as backend:
        current = await backend.current_rev()
        try:
            await backend.compact(current if revision is None else revision)
        except Compacted:
            pass
        return await backend.compact_rev(), await backend.current_rev()
