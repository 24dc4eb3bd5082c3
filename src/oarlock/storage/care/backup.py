"""Writes a store to a file, as it is at one revision, while servers go on writing.

See also: `backup_file`, for the format; `restore`.
"""

from __future__ import annotations

import time
from pathlib import Path

from oarlock.storage.care.backup_file import BackupHead, written_backup
from oarlock.storage.care.opening import opened
from oarlock.storage.care.snapshot import OperationProgress, ReportProgress, StoreSnapshot, pages, take_snapshot
from oarlock.storage.care.unfinished import must_be_complete

__all__ = ["backup"]


async def backup(url: str, path: Path, report_progress: ReportProgress) -> StoreSnapshot:
    """Write everything in the store at `url` to the file `path`, and return what was written.

    A file that is there is replaced when the new one is complete. Raises `StorageError` with a one-line message.
    """
    async with opened(url) as backend:
        await must_be_complete(backend)
        snapshot = await take_snapshot(backend)
        progress = OperationProgress("backup", snapshot.keys)
        with written_backup(path, BackupHead(snapshot.epoch, snapshot.rev, int(time.time() * 1000))) as writer:
            async for kvs in pages(backend, snapshot.rev):
                writer.add(kvs)
                progress.done += len(kvs)
                progress.bytes += sum(len(kv.value) for kv in kvs)
                report_progress(progress)
        return StoreSnapshot(snapshot.epoch, snapshot.rev, progress.done)
