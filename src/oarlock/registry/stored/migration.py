"""Storage version migration: rewrites stored objects of old versions in the current storage version.

An object that is to be encrypted in another way than it is (`Stale`) is rewritten as well.
Each object is rewritten by compare and swap, so this is safe while servers run, and may be stopped and started again at
any time. When a whole pass finds nothing left to do, the old versions are removed from the store's record
(status.storedVersions, in Kubernetes' terms), and servers that don't know them may start.
Must not know: who asks for it, how progress is shown. See also: `records`, `stored.form`. Source: the storage version
migrator of Kubernetes (KEP-4192).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import field

from oarlock.meta.dataclass import dataclass
from oarlock.registry.served import Served
from oarlock.registry.stored.form import STALE, StoredForm, after_prefix
from oarlock.registry.stored.records import DefinitionRecords, Facts
from oarlock.schema.definition import ResourceDefinition
from oarlock.storage.backend import KV, Backend, Stale, StorageError, shown_key
from oarlock.storage.cache.entry import Interner

PASSES = 8
"""The most passes, when other servers keep writing the old version."""


class MigrationRefused(StorageError):
    """Migration would do harm, or nothing. The message is one line that says what to do first."""


@dataclass(slots=True)
class Progress:
    """The progress of pass number `passes`: `seen` of `total` objects were read.

    `rewritten` counts over all passes, and `encrypted` those that were rewritten for another encryption. `broken` has
    one line for each object that can't be read; these stay unchanged.
    """

    resource: str
    total: int = 0
    seen: int = 0
    rewritten: int = 0
    encrypted: int = 0
    broken: list[str] = field(default_factory=list)
    lost: int = 0
    passes: int = 0


async def migrate(
    backend: Backend, served: Served, report_progress: Callable[[Progress], None] | None = None, *, page: int = 500
) -> Progress:
    """Rewrite the objects of one stored resource; `report_progress` is called after every `page` objects.

    Returns when a whole pass has found no object in an old version, except those that can't be read. Raises
    MigrationRefused, `records.StoreTooNew` and what the store raises.
    """
    definition = served.definition
    form = StoredForm(definition, served.conversions, lambda tree, unknown: (), Interner())
    progress = Progress(str(definition.group_resource))
    records = DefinitionRecords(backend)
    for _ in range(PASSES):
        facts, since = await records.find(definition)
        _check(definition, facts)
        before = progress.rewritten
        await _one_pass(backend, form, progress, report_progress or _ignore_progress, page)
        settled = progress.rewritten == before and not progress.lost
        if settled and (progress.broken or await records.shrink(definition, since)):
            return progress
    raise MigrationRefused(
        f"{progress.resource} is still being written in another version than {definition.stored_as}: end the servers "
        "that write it, then run this again"
    )


def _check(definition: ResourceDefinition, facts: Facts) -> None:
    """Refuse if the last server that was started writes another version: it may not know this one."""
    writes = facts.get("storedAs", definition.stored_as)
    if writes != definition.stored_as:
        raise MigrationRefused(
            f"the server that was started last on this store writes {definition.group_resource} as {writes}, not "
            f"{definition.stored_as}: start the one that is to write {definition.stored_as} first"
        )


async def _one_pass(
    backend: Backend, form: StoredForm, progress: Progress, report_progress: Callable[[Progress], None], size: int
) -> None:
    start, end = form.prefix, after_prefix(form.prefix)
    progress.total, _ = await backend.count(start, end)
    progress.passes += 1
    progress.seen = progress.lost = 0
    progress.broken = []
    more = True
    while more:
        page = await backend.list(start, end, limit=size)
        # concurrently, so that they share the store's batches
        await asyncio.gather(*(_rewrite(backend, form, kv, progress) for kv in page.kvs))
        progress.seen += len(page.kvs)
        report_progress(progress)
        more = page.more
        if page.kvs:
            start = page.kvs[-1].key + "\0"


async def _rewrite(backend: Backend, form: StoredForm, kv: KV, progress: Progress) -> None:
    entry = form.describe(kv.key, kv.value, kv.mod_rev, kv.create_rev)
    if form.unread.busy:
        await form.unread.settled()
    if entry.broken:
        progress.broken.append(f"{shown_key(backend, kv.key)}: {entry.broken}")
    elif entry.extra is STALE:
        result = await backend.put(kv.key, form.restore(entry), expect=kv.mod_rev)
        if result.ok:
            progress.rewritten += 1
            progress.encrypted += isinstance(kv.value, Stale)
        elif result.current is not None:
            progress.lost += 1


def _ignore_progress(progress: Progress) -> None:
    return None
