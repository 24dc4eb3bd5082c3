"""`ServedResources`: the live resources of a server and the router to them; how one catalog replaces another.

See also: ``registry.live_resources``, ``endpoints.routing``, ``server.description``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oarlock.client.informers.informer import Informer
from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route_table import About, RouteTable
from oarlock.endpoints.routing.router import Router
from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.chain import AdmissionChain, AdmissionPlugin
from oarlock.policy.admission.plugin import Admission
from oarlock.policy.admission.typed import TypedPlugin
from oarlock.policy.authz.authorizer import Authorizer, forbidden
from oarlock.registry.live_resources import LiveResources
from oarlock.registry.read.cached_objects import CachedObjects, selection_of
from oarlock.registry.served import Settings
from oarlock.registry.stored.resource import StoredResource
from oarlock.schema.types.projections import projection_of
from oarlock.schema.types.resources import declared
from oarlock.server.assembly.storage import ServerStorage
from oarlock.server.config import ServerConfig
from oarlock.server.description import ServerDescription


def admission_of(server: ServerDescription, authorizer: Authorizer) -> AdmissionChain:
    """The chain of the server's plugins. `authorizer` decides about verbs that a write needs besides its own."""

    async def authorize(ctx: Context, verb: str) -> None:
        target = replace(ctx.target, verb=verb)
        decision = await authorizer.decide(ctx.user, target)
        if not decision.allowed:
            raise forbidden(ctx.user, target, decision.reason)

    rules = server.cluster_rules
    plugins = server.admission if rules is None else rules.plugins(server.admission)
    return AdmissionChain(map(_member, plugins), authorize, server.admission_counts)


def _member(plugin: Admission[Any] | AdmissionPlugin) -> AdmissionPlugin:
    return TypedPlugin(plugin) if isinstance(plugin, Admission) else plugin


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else of a server resources need.

    `own_response` answers the server's own paths, which `own_paths` lists. `followers` are called with all resources
    before they are served.
    """

    admission: AdmissionChain
    own_response: Callable[[RequestState], Awaitable[Response | None]]
    own_paths: Callable[[], tuple[str, ...]]
    followers: Sequence[Callable[[Mapping[tuple[str, str], Any]], None]]


class ServedResources:
    """The resources of one server. Nothing is served before `serve`."""

    def __init__(
        self, server: ServerDescription, config: ServerConfig, storage: ServerStorage, around: Surroundings
    ) -> None:
        settings = Settings(
            garbage_collection=server.garbage_collection,
            check_command=f"oarlock storage check --schemas {server.source} --storage {config.shown_storage}",
        )
        self.live = LiveResources(storage.backend, storage.cache, settings)
        self.router = Router(around.own_response, self._catalog_caught_up, lambda: server.live.complete)
        self._server = server
        self._version = config.version
        self._cache = storage.cache
        self._around = around
        self._informed: dict[Informer[Any], StoredResource] = {}

    async def serve(self, catalog: Catalog, address: str) -> None:
        """Load `catalog` and serve it from the next request on. If that fails, nothing has changed."""
        offload = self.live.settings.workers.offload
        before = self.router.route_table
        if before is not None:
            catalog = await offload(catalog.sharing, before.catalog)
        change = catalog.since(before.catalog if before is not None else Catalog.of(()))
        informers = self._server.informers
        loaded = await self.live.load(change.put, change.removed)
        try:
            about = About(self._version, self._around.own_paths(), address, offload)
            route_table = RouteTable(catalog, change, loaded.resources, self._around.admission, about, before)
            readers = [self._reader(informer, *_resource_of(route_table, informer.kind)) for informer in informers]
            await self.live.record(change.put)
        except BaseException:
            self.live.discard(loaded)
            raise
        # From here on nothing waits and nothing fails: the replacement is one step of the event loop.
        for attach in readers:
            attach()
        for follow in self._around.followers:
            follow(route_table.resources)
        self.router.replace(route_table, self.live.commit(loaded))
        self._server.live.replaced(catalog)

    @property
    def served(self) -> bool:
        """Whether there is a catalog yet."""
        return self.router.route_table is not None

    def stored(self, group: str, plural: str) -> StoredResource | None:
        """The resource that is served by this name, if it is stored here."""
        table = self.router.route_table
        resource = None if table is None else table.resources.get((group, plural))
        return resource if isinstance(resource, StoredResource) else None

    def count(self, group: str, plural: str) -> int | None:
        """How many objects of a resource are stored, None if it isn't stored here."""
        found = self.live.resources.get((group, plural))
        return len(found.cache) if isinstance(found, StoredResource) else None

    def counts(self) -> dict[tuple[str, str], int]:
        """How many objects are stored, by group and resource."""
        stored = [resource for resource in self.live.resources.values() if isinstance(resource, StoredResource)]
        return {
            (resource.definition.group, resource.definition.names.plural): len(resource.cache) for resource in stored
        }

    def watch_events(self) -> dict[tuple[str, str, str], int]:
        """How many events were sent, by group, version and resource."""
        return self.router.watches.events

    def _reader(self, informer: Informer[Any], resource: StoredResource, version: str) -> Callable[[], None]:
        """What lets the informer read `resource`, unless it does. Raises BadRequest for a wrong selector."""
        selection = selection_of(resource, version, informer.query)

        def attach() -> None:
            if self._informed.get(informer) is not resource:
                self._informed[informer] = resource
                show = projection_of(informer.kind).view
                objects = CachedObjects(resource, version, show, informer.observers, informer.namespace, selection)
                informer.attach(objects)

        return attach

    async def _catalog_caught_up(self) -> bool:
        """Bring the catalog up to date with the store; whether there is anything by which it may have been behind."""
        sources = self._server.live.sources
        if not sources:
            return False
        waiting = self._cache.fresh()
        behind = waiting is not None
        if waiting is not None:
            await waiting
        for source in sources:
            if source.behind():
                behind = True
                await source.caught_up()
        return behind


def _resource_of(table: RouteTable, kind: type[Any]) -> tuple[StoredResource, str]:
    declaration = declared(kind)
    group = table.catalog.groups.get(declaration.group)
    for plural, served in group.resources.items() if group is not None else ():
        resource = table.resources[(declaration.group, plural)]
        if served.definition.names.kind == declaration.kind and isinstance(resource, StoredResource):
            return resource, declaration.version
    raise LookupError(
        f"an informer of {kind.__name__} is listed, but {kind.__name__} isn't served: add it to serve=[…]"
    )
