"""`RouteTable`: the routes of one catalog, with its discovery and OpenAPI documents. Immutable but for what is cached.

Each group has a `WaitGroup`, which the next table has too if nothing of the group changed. A cached route lives as long
as that of its group.
Must not know: requests. See also: `router`, which finds routes in it; `find_route`, which answers with the documents.
"""

from __future__ import annotations

from collections.abc import Mapping

from oarlock.endpoints import openapi
from oarlock.endpoints.catalog import Catalog, CatalogChange, CatalogEntry
from oarlock.endpoints.discovery import DiscoveryDocuments
from oarlock.endpoints.request_state import WaitGroup
from oarlock.endpoints.routing.index import PathsIndex, ServerVersion
from oarlock.endpoints.routing.route import Routes
from oarlock.endpoints.verbs.connect import load
from oarlock.endpoints.verbs.write import served_patches
from oarlock.meta.dataclass import dataclass
from oarlock.meta.memo import Memo
from oarlock.registry.live_resources import AnyResource
from oarlock.registry.served import Served
from oarlock.registry.workers import Offload, at_once
from oarlock.registry.write.scale import SCALE
from oarlock.registry.write.write_request import Gate

ROUTES_BYTES = 32 * 1024 * 1024
"""The limit of a server's route cache, in bytes: about 8,000 routes. Making one again takes microseconds."""

_ROUTE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class About:
    """The server's own data: what it says of itself; its own `paths`, for the index; `address` is host:port.

    `offload` runs slow steps in a thread.
    """

    version: ServerVersion
    paths: tuple[str, ...] = ()
    address: str = ""
    offload: Offload = at_once


class RouteTable:
    """The routes of one catalog, with its discovery and OpenAPI documents. `gate` is what its writes pass.

    `change` says how the catalog differs from that of `before`. What was cached by `before` for groups that didn't
    change is taken over. `requests` counts those of the server's own paths, `of_group` those of each group.
    """

    def __init__(
        self,
        catalog: Catalog,
        change: CatalogChange,
        resources: Mapping[tuple[str, str], AnyResource],
        gate: Gate,
        about: About,
        before: RouteTable | None = None,
    ) -> None:
        self.catalog = catalog
        self.change = change
        self.resources = resources
        self.gate = gate
        self.about = about
        self.requests = WaitGroup()
        self.index = PathsIndex(catalog, about.paths)
        info = openapi.Info("oarlock", "0.1", served_patches, about.version.own)
        self.scale: CatalogEntry
        self.routes: Routes
        self.discovery: DiscoveryDocuments
        self.openapi: openapi.OpenAPIDocuments
        groups: Mapping[str, WaitGroup]
        if before is None:
            self.scale = CatalogEntry(Served(SCALE), SCALE.versions[0])
            self.routes = Memo(ROUTES_BYTES, entry_bytes=_ROUTE_BYTES, per_byte=4)
            self.discovery = DiscoveryDocuments(catalog, about.address, about.offload)
            self.openapi = openapi.OpenAPIDocuments(catalog, info, about.offload)
            known, groups = Catalog.of(()), {}
        else:
            self.scale, self.routes = before.scale, before.routes
            self.discovery = DiscoveryDocuments(catalog, about.address, about.offload, before.discovery)
            self.openapi = openapi.OpenAPIDocuments(catalog, info, about.offload, before.openapi)
            known, groups = before.catalog, before.of_group
        self.of_group: Mapping[str, WaitGroup] = {
            name: groups[name] if known.groups.get(name) is group else WaitGroup()
            for name, group in catalog.groups.items()
        }
        if any(map(_connects, change.put)):
            load()

    def outdated(self, after: RouteTable) -> list[WaitGroup]:
        """The requests of this table that are about something else than what `after` has."""
        changed = [requests for name, requests in self.of_group.items() if after.of_group.get(name) is not requests]
        return [self.requests, *changed]

    def withdrawn(self, after: RouteTable) -> list[AnyResource]:
        """The resources of this table that `after`, the next one, doesn't have."""
        keys = [(served.definition.group, served.definition.names.plural) for served in after.change.put]
        keys += [(removed.group, removed.resource) for removed in after.change.removed]
        return [self.resources[key] for key in keys if key in self.resources]


def _connects(served: Served) -> bool:
    return any(subresource.connects for version in served.definition.versions for subresource in version.subresources)
