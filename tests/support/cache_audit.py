"""Compares the cache of one resource with the backend, at one revision. It reads the whole resource from the store."""

from __future__ import annotations

from oarlock.storage.backend import KV, Findings
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.resource_cache import ResourceCache
from oarlock.storage.pacing import Pacer

__all__ = ["check"]

_MOST = 20
"""Lines of findings; whoever reads them needs to know that it is wrong, and an example."""


async def check(resource: ResourceCache) -> Findings:
    """What differs between the cache and the store at the cache's revision, one line each; empty when nothing does.

    Compares keys, revisions and everything `Describe` makes of the stored bytes, so it also finds a draft that
    isn't what the bytes say. Raises what the backend raises (`Compacted` when the cache is far behind).
    """
    source = resource.source
    pacer = Pacer(source.limits.slice_s, source.clock.monotonic)
    snapshot = resource.snapshot()
    wrong: Findings = []
    start = resource.prefix
    while len(wrong) < _MOST:
        page = await source.backend.list(start, resource.end, rev=snapshot.rev, limit=source.limits.page)
        stop = page.kvs[-1].key + "\0" if page.more else resource.end
        cached = {entry.key: entry for part in snapshot.range(start, stop) for entry in part}
        for number, kv in enumerate(page.kvs):
            difference = _differs(resource, cached.pop(kv.key, None), kv)
            if difference:
                wrong.append(difference)
            if not number & 31:
                await pacer.turn()
        wrong += [f"{key} is in the cache but not in the store at revision {snapshot.rev}" for key in cached]
        if not page.more:
            break
        start = stop
    return wrong[:_MOST]


def _differs(resource: ResourceCache, cached: Entry | None, kv: KV) -> str:
    if cached is None:
        return f"{kv.key} is in the store but not in the cache"
    if (cached.rev, cached.create_rev) != (kv.mod_rev, kv.create_rev):
        return (
            f"{kv.key} was changed at {kv.mod_rev} and created at {kv.create_rev}, "
            f"the cache says {cached.rev} and {cached.create_rev}"
        )
    described = resource.describe(kv.key, kv.value, kv.mod_rev, kv.create_rev)
    for name in ("namespace", "name", "body", "labels", "fields", "broken"):
        if getattr(described, name) != getattr(cached, name):
            return f"{kv.key}: the cached {name} isn't what the stored bytes say"
    return ""
