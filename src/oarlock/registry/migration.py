"""Storage migration: what is stored in an old version is written again in the one that is written now.

Each object is rewritten as it is, if nobody else writes it meanwhile (compare and swap), so this is safe beside
running servers and may be stopped at any time: what is done needs no doing again. Once a whole pass finds nothing to
do, the old versions are struck from the store's record, and a server that doesn't know them may start.
Must not know: who asks for it, how progress is shown. Next: `records`, `stored_form`.
Source: the storage version migrator of Kubernetes (KEP-4192).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from oarlock.registry.keys import after_prefix
from oarlock.registry.records import recorded, shrink
from oarlock.registry.served import Served
from oarlock.registry.stored_form import STALE, StoredForm
from oarlock.schema.definition import ResourceDefinition
from oarlock.storage.backend import KV, Backend, StorageError
from oarlock.storage.cache.entry import Interner

__all__ = ["MigrationRefused", "Progress", "migrate"]

PASSES = 8
"""How often everything is looked at, when others keep on writing the old version, before this gives up."""


class MigrationRefused(StorageError):
    """It would do harm, or no good. The message is one line that says what to do first."""


@dataclass(slots=True)
class Progress:
    """What has been done in pass number `passes`: of `total` objects `seen` were looked at.

    `rewritten` counts over all passes. `broken` are those that can't be read, one line each; they stay as they are.
    """

    resource: str
    total: int = 0
    seen: int = 0
    rewritten: int = 0
    broken: list[str] = field(default_factory=list)
    lost: int = 0
    passes: int = 0


async def migrate(
    backend: Backend, served: Served, tell: Callable[[Progress], None] | None = None, *, page: int = 500
) -> Progress:
    """Rewrite the objects of one stored resource; `tell` is called after every `page` objects.

    Returns once a whole pass has found nothing in an old version, or nothing but what can't be read.
    Raises MigrationRefused, `records.StoreTooNew` and what the store raises.
    """
    definition = served.definition
    form = StoredForm(definition, served.conversions, lambda tree, unknown: (), Interner())
    progress = Progress(str(definition.group_resource))
    for _ in range(PASSES):
        known, since = await recorded(backend)
        _check(definition, known.get(progress.resource))
        before = progress.rewritten
        await _one_pass(backend, form, progress, (tell or _silent, page))
        settled = progress.rewritten == before and not progress.lost
        if settled and (progress.broken or await shrink(backend, definition, since)):
            return progress
    raise MigrationRefused(
        f"{progress.resource} is still being written in another version than {definition.stored_as}: end the servers "
        "that write it, then run this again"
    )


def _check(definition: ResourceDefinition, known: dict[str, object] | None) -> None:
    """A server that writes another version, and maybe knows no other, must not be the last that was started."""
    writes = (known or {}).get("storedAs", definition.stored_as)
    if writes != definition.stored_as:
        raise MigrationRefused(
            f"the server that was started last on this store writes {definition.group_resource} as {writes}, not "
            f"{definition.stored_as}: start the one that is to write {definition.stored_as} first"
        )


async def _one_pass(
    backend: Backend, form: StoredForm, progress: Progress, how: tuple[Callable[[Progress], None], int]
) -> None:
    tell, size = how
    start, end = form.prefix, after_prefix(form.prefix)
    progress.total, _ = await backend.count(start, end)
    progress.passes += 1
    progress.seen = progress.lost = 0
    progress.broken = []
    more = True
    while more:
        page = await backend.list(start, end, limit=size)
        # together, so that they share the store's batches
        await asyncio.gather(*(_rewrite(backend, form, kv, progress) for kv in page.kvs))
        progress.seen += len(page.kvs)
        tell(progress)
        more = page.more
        if page.kvs:
            start = page.kvs[-1].key + "\0"


async def _rewrite(backend: Backend, form: StoredForm, kv: KV, progress: Progress) -> None:
    entry = form.describe(kv.key, kv.value, kv.mod_rev, kv.create_rev)
    if form.unread.busy:
        await form.unread.settled()
    if entry.broken:
        progress.broken.append(f"{kv.key}: {entry.broken}")
    elif entry.extra is STALE:
        result = await backend.put(kv.key, form.restore(entry), expect=kv.mod_rev)
        if result.ok:
            progress.rewritten += 1
        elif result.current is not None:
            progress.lost += 1


def _silent(progress: Progress) -> None:
    return None
