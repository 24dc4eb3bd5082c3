"""`RouteTable`: the routes of one catalog, with its discovery and OpenAPI documents. Immutable but for what is cached.

Must not know: requests. See also: `router`, which finds routes in it; `own_paths`, which answers with the documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oarlock.endpoints import openapi
from oarlock.endpoints.catalog import CatalogEntry, CatalogIndex
from oarlock.endpoints.discovery import DiscoveryDocuments
from oarlock.endpoints.index import PathsIndex
from oarlock.endpoints.route import Routes
from oarlock.endpoints.verbs.connect import load
from oarlock.endpoints.verbs.patch import served_patches
from oarlock.endpoints.wait_group import WaitGroup
from oarlock.meta.memo import Memo
from oarlock.registry.gate import Gate
from oarlock.registry.live_resources import AnyResource
from oarlock.registry.scale import SCALE
from oarlock.registry.served import Served
from oarlock.registry.workers import Offload, at_once

__all__ = ["About", "RouteTable"]

ROUTES_BYTES = 32 * 1024 * 1024
"""The limit of the route cache of one catalog, in bytes: about 8,000 routes. Making one again takes microseconds."""

_ROUTE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class About:
    """The server's own data. `paths` are its own paths, for the index; `address` is host:port.

    `offload` runs slow steps in a thread.
    """

    version: str
    paths: tuple[str, ...] = ()
    address: str = ""
    offload: Offload = at_once


class RouteTable:
    """The routes of one catalog, with its discovery and OpenAPI documents. `gate` is what its writes pass.

    What was written out for `before`, and is the same, is taken over.
    """

    def __init__(
        self,
        catalog: CatalogIndex,
        resources: Mapping[tuple[str, str], AnyResource],
        gate: Gate,
        about: About,
        before: RouteTable | None = None,
    ) -> None:
        self.catalog = catalog
        self.resources = resources
        self.gate = gate
        self.about = about
        self.scale = CatalogEntry(Served(SCALE), SCALE.versions[0])
        self.routes: Routes = Memo(ROUTES_BYTES, entry_bytes=_ROUTE_BYTES, per_byte=4)
        self.requests = WaitGroup()
        self.discovery = DiscoveryDocuments(catalog, about.address)
        info = openapi.Info("oarlock", "0.1", served_patches, about.version)
        documents = before.openapi if before is not None else None
        self.openapi: openapi.OpenAPIDocuments = openapi.OpenAPIDocuments(catalog, info, about.offload, documents)
        self.index = PathsIndex(catalog, about.paths)
        if any(one.connects for entry in catalog.entries for one in entry.subresources.values()):
            load()
