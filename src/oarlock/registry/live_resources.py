"""`LiveResources`: the resources that are served, and how they are replaced while requests run.

A resource whose definition is unchanged keeps its cache and watches. One whose definition changed, but not how its
objects are stored and shown, takes them over. Any other is loaded next to the old one and replaces it in one step of
the event loop; if loading fails, nothing changes.
Must not know: HTTP. See also: `stored.resource`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupResource
from oarlock.registry.served import Served, Settings
from oarlock.registry.served_resource import StoredVerbs, VirtualVerbs
from oarlock.registry.stored.form import StoredForm, after_prefix, prefix_of
from oarlock.registry.stored.records import DefinitionRecords
from oarlock.registry.stored.schema_check import DriftLog
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.structural.proto_numbers import proto_fields
from oarlock.storage.backend import Backend
from oarlock.storage.cache.entry import Interner
from oarlock.storage.cache.follower import SharedHistory
from oarlock.storage.cache.watch_cache import ResourceCache, WatchCache

AnyResource = StoredVerbs | VirtualVerbs
ResourceKey = tuple[str, str]

AT_ONCE = 25
"""How many definitions are compiled in one step of a thread, and how many resources are loaded at the same time."""


@dataclass(frozen=True, slots=True)
class LoadedResources:
    """Resources ready to be served: (group, plural) → resource.

    `made` are those that weren't served before, `removed` the keys of those that won't be any more; `caches` were
    loaded for the former alone.
    """

    resources: Mapping[ResourceKey, AnyResource]
    made: Mapping[ResourceKey, AnyResource]
    removed: frozenset[ResourceKey]
    caches: tuple[ResourceCache, ...]


class LiveResources:
    """What is served now. `resources` maps (group, plural) to a resource; it is replaced as a whole, never changed."""

    def __init__(self, backend: Backend, cache: WatchCache, settings: Settings) -> None:
        self.settings = settings
        self.cache = cache
        self.resources: Mapping[ResourceKey, AnyResource] = {}
        self._backend = backend
        self._records = DefinitionRecords(backend, settings.workers.offload)
        self._drift_log = DriftLog()
        self._interner = Interner()

    async def load(self, put: Sequence[Served], removed: Iterable[GroupResource] = ()) -> LoadedResources:
        """Load `put`, in place of what has the same name, without serving it yet; `removed` won't be served any more.

        Schemas are read in a thread. Call `commit` or `discard` with the result. Raises `records.StoreTooNew`,
        `schema.SchemaError`, and what the store raises; then everything loaded so far is released.
        """
        made: dict[ResourceKey, AnyResource] = {}
        for start in range(0, len(put), AT_ONCE):
            made |= await self.settings.workers.offload(self._made, put[start : start + AT_ONCE])
        gone = {(definition.group, definition.resource) for definition in removed}
        resources = (
            {key: resource for key, resource in self.resources.items() if key not in gone} if gone else self.resources
        )
        changed: list[StoredVerbs] = []
        for key, resource in made.items():
            current = self.resources.get(key)
            if isinstance(resource, StoredVerbs):
                if isinstance(current, StoredVerbs) and await self._goes_on(current, resource):
                    resource.take_over(current)
                else:
                    changed.append(resource)
        await self._records.check(_stored(put))
        caches: list[ResourceCache] = []
        try:
            async with self.cache.together(resource.form.prefix for resource in changed) as history:
                for start in range(0, len(changed), AT_ONCE):
                    await _all([self._fill(resource, caches, history) for resource in changed[start : start + AT_ONCE]])
        except BaseException:
            self._drop(caches)
            raise
        return LoadedResources({**resources, **made}, made, frozenset(gone), tuple(caches))

    async def _goes_on(self, current: StoredVerbs, resource: StoredVerbs) -> bool:
        """Whether cache entries and open watches of `current` can go on under `resource`, which takes its place."""
        before, after = current.definition, resource.definition
        if not _kept_alike(current.served, resource.served):
            return False
        if before.version(before.stored_as).schema == after.version(after.stored_as).schema:
            return True
        chunks = current.cache.snapshot().range(*current.range(""))
        entries = (entry for chunk in chunks for entry in chunk)
        return await self.settings.workers.offload(resource.shows_alike, entries)

    async def _fill(self, resource: StoredVerbs, caches: list[ResourceCache], history: SharedHistory) -> None:
        """Load the objects of a resource; its cache is added to `caches`."""
        form = resource.form
        resource.cache = await self.cache.resource(form.prefix, form.describe, form.later, history)
        caches.append(resource.cache)
        for pending in (form.unread, form.unselected):
            if pending is not None and pending.busy:
                await pending.settled()

    def _made(self, put: Iterable[Served]) -> dict[ResourceKey, AnyResource]:
        made: dict[ResourceKey, AnyResource] = {}
        for served in put:
            key = (served.definition.group, served.definition.names.plural)
            if served.virtual is not None:
                made[key] = VirtualVerbs(served, self.settings)
            else:
                made[key] = StoredVerbs(served, self.cache, self.settings, self._interner)
        return made

    async def record(self, put: Iterable[Served]) -> None:
        """Record in the store that this server serves `put`; to be done before the first object is written.

        Logs what objects that are there may not fit any more. Raises `records.StoreTooNew`, and what the store raises.
        """
        drifts = await self._records.record(_stored(put))
        if drifts:
            stored = [drift for drift in drifts if await self._has_objects(drift.resource)]
            self._drift_log.log(stored, self.settings.check_command)

    async def _has_objects(self, resource: GroupResource) -> bool:
        prefix = prefix_of(resource.group, resource.resource)
        count, _ = await self._backend.count(prefix, after_prefix(prefix))
        return count > 0

    def discard(self, loaded: LoadedResources) -> None:
        """Release what `load` returned, when it won't be served."""
        self._drop(loaded.caches)

    def commit(self, loaded: LoadedResources) -> Callable[[], None]:
        """Serve what `load` returned. Watches of changed or withdrawn resources end cleanly.

        Returns a function to call once every request that began before has ended: until then the old caches are kept
        current for them.
        """
        before, self.resources = self.resources, loaded.resources
        retired: list[ResourceCache] = []
        forms: list[StoredForm] = []
        gone = [before[key] for key in (*loaded.made, *loaded.removed) if key in before]
        for resource in loaded.made.values():
            if isinstance(resource, StoredVerbs):
                resource.adopt_form()
        for resource in gone:
            if isinstance(resource, VirtualVerbs):
                resource.end_watches()
                continue
            after = loaded.made.get((resource.definition.group, resource.definition.names.plural))
            if not isinstance(after, StoredVerbs) or after.cache is not resource.cache:
                resource.cache.retire()
                retired.append(resource.cache)
                forms.append(resource.form)

        def idle() -> None:
            self._drop(retired)
            for unused in (*forms, *gone):
                unused.retire()
            if gone:  # freed once nothing refers to the old resources
                asyncio.get_running_loop().call_soon(self.settings.workers.free, gone)

        return idle

    def _drop(self, caches: Iterable[ResourceCache]) -> None:
        for cache in caches:
            self.cache.drop(cache)


async def _all(calls: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all calls at the same time, to the end of each; a single one needs no task. Raises the first error."""
    if len(calls) == 1:
        await calls[0]
        return
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _stored(entries: Iterable[Served]) -> list[ResourceDefinition]:
    return [served.definition for served in entries if served.virtual is None]


def _kept_alike(old: Served, new: Served) -> bool:
    """Whether cache entries and open watches of the old definition can go on under the new one.

    Selectors and frames depend on a version's name, its selectable fields and, for protobuf, its field numbers.
    """
    before, after = old.definition, new.definition
    same_converter = old.converter == new.converter
    return (
        old.virtual is None
        and same_converter
        and (before.names.kind, before.scope, before.stored_as) == (after.names.kind, after.scope, after.stored_as)
        and bool(before.initializers) == bool(after.initializers)
        and _wire(before) == _wire(after)
    )


def _wire(definition: ResourceDefinition) -> list[tuple[object, ...]]:
    return [
        (version.name, version.served, version.selectable, proto_fields(version.schema))
        for version in definition.versions
    ]
