"""`LiveResources`: the resources that are served, and how they are replaced while requests run.

A resource whose definition is unchanged keeps its cache and watches. One whose definition changed, but not how its
objects are stored and shown, takes them over. Any other is loaded next to the old one and replaces it in one step of
the event loop; if loading fails, nothing changes.
Must not know: HTTP. See also: `stored_resource`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from oarlock.registry.conversion import NoConversion
from oarlock.registry.records import DefinitionRecords
from oarlock.registry.served import Served
from oarlock.registry.served_resource import StoredVerbs, VirtualVerbs
from oarlock.registry.settings import Settings
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.proto_numbers import proto_fields
from oarlock.storage.backend import Backend
from oarlock.storage.cache.entry import Interner
from oarlock.storage.cache.watch_cache import ResourceCache, WatchCache

__all__ = ["AnyResource", "LiveResources", "LoadedResources"]

AnyResource = StoredVerbs | VirtualVerbs
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LoadedResources:
    """Resources ready to be served: (group, plural) → resource. `caches` are those loaded for them alone."""

    resources: Mapping[Key, AnyResource]
    caches: tuple[ResourceCache, ...]


class LiveResources:
    """What is served now. `resources` maps (group, plural) to a resource; it is replaced as a whole, never changed."""

    def __init__(self, backend: Backend, cache: WatchCache, settings: Settings) -> None:
        self.settings = settings
        self.cache = cache
        self.resources: Mapping[Key, AnyResource] = {}
        self._records = DefinitionRecords(backend)
        self._interner = Interner()

    async def load(self, entries: Iterable[Served]) -> LoadedResources:
        """Load `entries` without serving them yet. Schemas are read in a thread.

        Call `commit` or `discard` with the result. Raises `records.StoreTooNew`, `schema.SchemaError`, and what the
        store raises; then everything loaded so far is released.
        """
        loaded: dict[Key, AnyResource] = {}
        entries = list(entries)
        changed: list[StoredVerbs] = []
        compiling = self.settings.workers.offload
        for served in entries:
            key = (served.definition.group, served.definition.names.plural)
            current = self.resources.get(key)
            if current is not None and current.served is served:
                loaded[key] = current
            elif served.virtual is not None:
                loaded[key] = await compiling(VirtualVerbs, served, self.settings)
            else:
                loaded[key] = made = await compiling(StoredVerbs, served, self.cache, self.settings, self._interner)
                if isinstance(current, StoredVerbs) and _kept_alike(current.served, served):
                    made.take_over(current)
                else:
                    changed.append(made)
        await self._records.check(_stored(entries))
        caches: list[ResourceCache] = []
        try:
            for resource in changed:
                form = resource.form
                resource.cache = await self.cache.resource(form.prefix, form.describe, form.later)
                caches.append(resource.cache)
                for late in (form.unread, form.unselected):
                    if late is not None and late.busy:
                        await late.settled()
        except BaseException:
            self._drop(caches)
            raise
        return LoadedResources(loaded, tuple(caches))

    async def record(self, entries: Iterable[Served]) -> None:
        """Record in the store that this server serves `entries`; to be done before the first object is written.

        Raises `records.StoreTooNew`, and what the store raises.
        """
        await self._records.record(_stored(entries))

    def discard(self, loaded: LoadedResources) -> None:
        """Release what `load` returned and nobody will serve."""
        self._drop(loaded.caches)

    def commit(self, loaded: LoadedResources) -> Callable[[], None]:
        """Serve what `load` returned. Watches of changed or withdrawn resources end cleanly.

        Returns a function to call once every request that began before has ended: until then the old caches are kept
        current for them.
        """
        before, self.resources = self.resources, loaded.resources
        kept = {id(one.cache) for one in loaded.resources.values() if isinstance(one, StoredVerbs)}
        retired: list[ResourceCache] = []
        forms = {one.form for one in loaded.resources.values() if isinstance(one, StoredVerbs)}
        gone = [resource for key, resource in before.items() if loaded.resources.get(key) is not resource]
        for one in loaded.resources.values():
            if isinstance(one, StoredVerbs):
                one.tend()
        for key, resource in before.items():
            if isinstance(resource, VirtualVerbs):
                if loaded.resources.get(key) is not resource:
                    resource.end_watches()
            elif id(resource.cache) not in kept:
                resource.cache.retire()
                retired.append(resource.cache)

        def idle() -> None:
            self._drop(retired)
            for resource in gone:
                if isinstance(resource, StoredVerbs) and resource.form not in forms:
                    resource.form.retire()  # break the reference cycle: frees memory at once
            if gone:  # freed once nothing refers to the old resources
                asyncio.get_running_loop().call_soon(self.settings.workers.let_go, gone)

        return idle

    def _drop(self, caches: Iterable[ResourceCache]) -> None:
        for cache in caches:
            self.cache.drop(cache)


def _stored(entries: Iterable[Served]) -> list[ResourceDefinition]:
    return [served.definition for served in entries if served.virtual is None]


def _kept_alike(old: Served, new: Served) -> bool:
    """Whether cache entries and open watches of the old definition can go on under the new one.

    Selectors and frames depend on a version's name, its selectable fields and, for protobuf, its field numbers.
    """
    before, after = old.definition, new.definition
    same_converter = old.converter is new.converter or type(old.converter) is type(new.converter) is NoConversion
    return (
        old.virtual is None
        and same_converter
        and (before.names.kind, before.scope, before.stored_as) == (after.names.kind, after.scope, after.stored_as)
        and _wire(before) == _wire(after)
    )


def _wire(definition: ResourceDefinition) -> list[tuple[object, ...]]:
    return [(one.name, one.served, one.selectable, proto_fields(one.schema)) for one in definition.versions]
