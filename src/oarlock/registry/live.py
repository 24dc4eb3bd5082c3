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
        changed: list[Resource] = []
        for served in entries:
            key = (served.definition.group, served.definition.names.plural)
            current = self.resources.get(key)
            if current is not None and current.served is served and self._is_current(current):
                loaded[key] = current
            elif served.virtual is not None:
                loaded[key] = VirtualResource(served, self.settings)
            else:
                loaded[key] = made = Resource(served, self.cache, self.settings, self._interner)
                changed.append(made)
        # whatever is wrong with a definition is known by now, before anything that is served is touched
        await record(self._backend, (served.definition for served in entries if served.virtual is None))
        for resource in changed:
            prefix, form = resource.form.prefix, resource.form
            await self.cache.drop(prefix)
            resource.cache = await self.cache.resource(prefix, form.describe, form.restore)
        return loaded

    def _is_current(self, resource: AnyResource) -> bool:
        """False for a resource whose cache went when a later catalog was loaded that never came to be served."""
        return not isinstance(resource, Resource) or resource.cache in self.cache.resources

    async def commit(self, loaded: Mapping[Key, AnyResource]) -> None:
        """Serve what `load` returned. The watches of what went end cleanly."""
        before, self.resources = self.resources, loaded
        for key, resource in before.items():
            if isinstance(resource, VirtualResource):
                if loaded.get(key) is not resource:
                    resource.end_watches()
            elif not isinstance(loaded.get(key), Resource):
                await self.cache.drop(resource.form.prefix)
