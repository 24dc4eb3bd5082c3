"""`Live`: the resources of a catalog, brought to life over one cache, and exchanged while requests run.

A definition that stays as it was keeps its cache and its watches; one that changed or went has its watches
ended and its cache dropped. Must not know: HTTP. Next: `resource`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oarlock.registry.records import record
from oarlock.registry.resource import Resource, Settings
from oarlock.registry.served import Served
from oarlock.registry.virtual_resource import VirtualResource
from oarlock.storage.backend import Backend
from oarlock.storage.cache.cache import Cache
from oarlock.storage.cache.entry import Interner

__all__ = ["AnyResource", "Live"]

AnyResource = Resource | VirtualResource
Key = tuple[str, str]


class Live:
    """What is served now. `resources` is replaced as a whole, never changed: (group, plural) → resource."""

    def __init__(self, backend: Backend, cache: Cache, settings: Settings) -> None:
        self.settings = settings
        self.cache = cache
        self.resources: Mapping[Key, AnyResource] = {}
        self._backend = backend
        self._interner = Interner()

    async def load(self, entries: Iterable[Served]) -> Mapping[Key, AnyResource]:
        """Bring `entries` to life without serving them yet: what is unchanged is taken over.

        Raises `records.StoreTooNew`, `schema.SchemaError`, and what the store raises.
        """
        loaded: dict[Key, AnyResource] = {}
        entries = list(entries)
        await record(self._backend, (served.definition for served in entries if served.virtual is None))
        for served in entries:
            key = (served.definition.group, served.definition.names.plural)
            current = self.resources.get(key)
            if current is not None and current.served is served:
                loaded[key] = current
            elif served.virtual is not None:
                loaded[key] = VirtualResource(served, self.settings)
            else:
                loaded[key] = await self._bring_up(served, current)
        return loaded

    async def _bring_up(self, served: Served, current: AnyResource | None) -> Resource:
        resource = Resource(served, self.cache, self.settings, self._interner)
        if isinstance(current, Resource):
            await self.cache.drop(resource.form.prefix)
        resource.cache = await self.cache.resource(resource.form.prefix, resource.form.describe, resource.form.restore)
        return resource

    async def commit(self, loaded: Mapping[Key, AnyResource]) -> None:
        """Serve what `load` returned. The watches of what went end cleanly."""
        before, self.resources = self.resources, loaded
        for key, resource in before.items():
            if key not in loaded and isinstance(resource, Resource):
                await self.cache.drop(resource.form.prefix)
            elif isinstance(resource, VirtualResource) and loaded.get(key) is not resource:
                resource.end_watches()
