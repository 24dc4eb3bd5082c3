"""Fills an empty store from a backup, and begins another epoch in it.

Revisions of the restored store are above all that the backup's store is likely to have given out since: whoever knows
one of those is told to list again.

See also: `backup_file`; `unfinished`, which keeps servers out until all is there.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import Backend, Rev
from oarlock.storage.care.backup_file import BackupReader
from oarlock.storage.care.operations import opened
from oarlock.storage.care.snapshot import (
    BulkWriter,
    Filling,
    KeyWrite,
    OperationProgress,
    ReportProgress,
    begin_filling,
    end_filling,
)

__all__ = ["Restored", "restore"]


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did. `expired` keys were over by now, and left out."""

    keys: int
    expired: int
    from_rev: Rev
    rev: Rev


async def restore(path: Path, url: str, command: str, report_progress: ReportProgress) -> Restored:
    """Fill the store at `url` from the backup `path`. `command` is what an interrupted restore is finished with.

    Nothing is written unless all of the file is sound and the store is empty, or holds a part of this very restore.
    Raises `StorageError` with a one-line message.
    """
    reader = BackupReader(path)
    try:
        progress = OperationProgress("checking the backup")
        for progress.bytes in reader.check():
            report_progress(progress)
            await asyncio.sleep(0)
        async with opened(url, create=True) as backend:
            await begin_filling(backend, Filling("restore", reader.digest, command))
            restored, expired = await _fill(backend, reader, report_progress)
            rev = await backend.begin_epoch(reader.head.rev)
            await end_filling(backend)
            return Restored(restored, expired, reader.head.rev, rev)
    finally:
        reader.close()


async def _fill(backend: Backend, reader: BackupReader, report_progress: ReportProgress) -> tuple[int, int]:
    """Write every record; returns how many there were, and how many had expired."""
    progress = OperationProgress("restore", reader.count)
    writer = BulkWriter(backend)
    expired = 0
    try:
        for kv in reader.records():
            if kv.expires is not None and kv.expires <= time.time() * 1000:
                expired += 1
            else:
                await writer.add(KeyWrite(kv.key, kv.value, kv.expires))
            progress.done += 1
            progress.bytes += len(kv.value)
            report_progress(progress)
        await writer.finish()
    finally:
        await writer.stop()
    return progress.done - expired, expired
