"""From method and path to the verb that answers: `Router`, over one immutable `RouteTable` per catalog.

`resolve` is called by the chain before authentication, `dispatch` at its end. The routes of known users are remembered,
and the memory goes with the route table, so a new catalog takes effect between two requests.
Must not know: filters, sockets. Next: ``verbs``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from oarlock.endpoints import openapi, version
from oarlock.endpoints.catalog import CatalogEntry, CatalogIndex
from oarlock.endpoints.discovery import DiscoveryDocuments
from oarlock.endpoints.http import Response
from oarlock.endpoints.index import PathsIndex
from oarlock.endpoints.negotiation import JSON, Accepted
from oarlock.endpoints.request_state import ANONYMOUS, RequestState
from oarlock.endpoints.respond import compressed, is_pretty
from oarlock.endpoints.route import Route, Routes, Verb, WaitGroup, WatchBook, deprecation
from oarlock.endpoints.target import parse_target
from oarlock.endpoints.verbs.connect import connect, load
from oarlock.endpoints.verbs.create import create
from oarlock.endpoints.verbs.delete import delete
from oarlock.endpoints.verbs.delete_collection import delete_collection
from oarlock.endpoints.verbs.get import get
from oarlock.endpoints.verbs.list import list_collection
from oarlock.endpoints.verbs.patch import patch, served_patches
from oarlock.endpoints.verbs.scale import get_scale
from oarlock.endpoints.verbs.stream_text import stream_text
from oarlock.endpoints.verbs.subresource import call_hook
from oarlock.endpoints.verbs.update import update
from oarlock.endpoints.verbs.watch import watch
from oarlock.meta import options_parse
from oarlock.meta.context import Target
from oarlock.meta.errors import MethodNotAllowed, NoSuchPath, ServiceUnavailable, StorageReadError, TooManyRequests
from oarlock.meta.memo import Memo
from oarlock.registry.gate import Gate
from oarlock.registry.keys import object_key
from oarlock.registry.live_resources import AnyResource
from oarlock.registry.scale import SCALE
from oarlock.registry.served import ConnectHook, Served, StreamHook
from oarlock.registry.stored_resource import StoredResource
from oarlock.registry.waiting import in_task, resource_waits
from oarlock.registry.workers import Offload, at_once

__all__ = ["About", "NonResource", "RouteTable", "Router"]

ROUTES_BYTES = 32 * 1024 * 1024
"""The limit of the route cache of one catalog, in bytes: about 8,000 routes. Making one again takes microseconds."""

_ROUTE_BYTES = 4096
_MOST_PAIRS = 16
"""Routes with more query parameters aren't cached: each may take a hundred bytes for two bytes of the query."""

_VERBS: dict[str, Verb] = {
    "get": get,
    "list": list_collection,
    "watch": watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}

_READS: dict[tuple[tuple[str, str], ...], bool] = {(): False, (("resourceVersion", "0"),): True}

NonResource = Callable[[RequestState], Awaitable[Response | None]]
"""Answers the server's own paths (health, metrics); returns None for any other path."""


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


class Router:
    """Finds routes and calls verbs. `own` answers the server's own paths."""

    def __init__(self, own: NonResource) -> None:
        self.watches = WatchBook()
        self._own = own
        self._route_table: RouteTable | None = None

    def replace(self, route_table: RouteTable, idle: Callable[[], None]) -> None:
        """Serve `route_table` from the next request on; what goes on for resources it hasn't ends.

        `idle` is called once every request that is being carried out with the table before has ended.
        """
        before, self._route_table = self._route_table, route_table
        self.watches.withdraw(route_table.resources.values())
        if before is None:
            idle()
        else:
            before.requests.close(idle)

    @property
    def route_table(self) -> RouteTable | None:
        return self._route_table

    def resolve(self, state: RequestState) -> None:
        """Find the route of a request: sets ``state.target`` and ``state.route``. Raises BadRequest."""
        request, route_table = state.request, self._route_table
        key = (request.method, request.path, request.query)
        if route_table is None:
            state.target = parse_target(request.method, request.path)
            return
        route = route_table.routes.get(key)
        if route is None:
            route = self._find(route_table, *key)
            route.unkept = route_table.routes
        state.route = route
        state.target = route.target

    async def dispatch(self, state: RequestState) -> Response:
        """Carry out the request. Raises errors that `respond.error_response` can answer."""
        route = state.route
        if route is None:
            raise ServiceUnavailable(
                "the request has been made before all known HTTP paths have been installed, please try again",
                details={},
                retry_after_s=5,
            )
        requests: WaitGroup = route.requests
        if requests.closed:
            # The catalog was replaced since this was resolved, and the route may be for a resource that is gone.
            self.resolve(state)
            return await self.dispatch(state)
        requests.count += 1
        try:
            if route.unkept is not None:
                _keep(state, route, route.unkept)
            handle: Verb = route.handle
            if route.warning:
                state.notes.warn(route.warning)
            if route.waits:
                await in_task()
            return await handle(state, route)
        except StorageReadError:
            if requests.closed:
                # The object was written meanwhile in a version that only the new definition has.
                raise TooManyRequests("the definition of the resource was replaced meanwhile: try again") from None
            raise
        finally:
            requests.count -= 1
            if requests.closed:
                requests.settle()

    def _find(self, route_table: RouteTable, method: str, path: str, query: str) -> Route:
        pairs = options_parse.parse_query(query) if query else []
        target = parse_target(method, path, pairs)
        if not target.resource:
            return Route(target, self._outside, route_table.requests, pairs=pairs)
        if not route_table.catalog.serves(target.group, target.version):
            return Route(target, self._outside, route_table.requests, pairs=pairs)
        entry = route_table.catalog.find(target.group, target.version, target.resource)
        verb = _verb_of(method, target, entry)
        if isinstance(verb, Exception):
            return Route(target, _raiser(verb), route_table.requests, pairs=pairs)
        assert entry is not None
        return self._route(route_table, target, entry, (verb, pairs))

    def _route(self, route_table: RouteTable, target: Target, entry: CatalogEntry, how: tuple[Verb, Any]) -> Route:
        resource = route_table.resources[(target.group, target.resource)]
        verb, pairs = how
        target = replace(target, kind=entry.gvk.kind)
        key = ""
        if isinstance(resource, StoredResource):
            key = object_key(resource.form.prefix, target.namespace, target.name)
        scaling = entry.scaling if target.subresource == "scale" else None
        shown = entry if scaling is None else route_table.scale
        return Route(
            target,
            verb,
            route_table.requests,
            entry=shown,
            resource=resource,
            gate=route_table.gate,
            watches=self.watches,
            pairs=pairs,
            head=_head(shown),
            warning=deprecation(entry),
            key=key,
            cached=_READS.get(tuple(pairs)),
            scaling=scaling,
            endless=verb is stream_text or verb is connect,
            connects=verb is connect,
            waits=_may_wait(resource, target),
        )

    async def _outside(self, state: RequestState, route: Route) -> Response:
        """Discovery, OpenAPI, version, and the server's own paths; else the index of paths."""
        request, route_table = state.request, self._route_table
        own = await self._own(state)
        if own is not None:
            return own
        assert route_table is not None
        path = route.target.path or request.path
        accept, match = request.headers.get("accept", ""), request.headers.get("if-none-match", "")
        answer: Response | None = None
        if path.rstrip("/") == "/version":
            answer = version.respond(route_table.about.version)
        elif path.startswith("/openapi/"):
            answer = await route_table.openapi.respond(path, route.pairs, accept, match, now=state.clock.now())
            if answer is not None:
                answer = await compressed(state, answer)
        else:
            answer = route_table.discovery.respond(path, accept, match, pretty=is_pretty(state, route, Accepted(JSON)))
        if answer is None:
            if _below_a_served_version(path, route_table.catalog):
                raise NoSuchPath()
            return route_table.index.respond(path)
        if request.method != "GET":
            raise MethodNotAllowed()
        return answer


def _below_a_served_version(path: str, catalog: CatalogIndex) -> bool:
    """Whether a path that names no resource (an empty segment, a NUL) is below a served version."""
    root, _, rest = path.lstrip("/").partition("/")
    group, _, rest = rest.partition("/")
    version, _, rest = rest.partition("/")
    return root == "apis" and bool(rest.strip("/")) and catalog.serves(group, version)


def _keep(state: RequestState, route: Route, routes: Routes) -> None:
    """Cache `route` for authenticated users only: anybody could fill the cache otherwise."""
    route.unkept = None
    request = state.request
    if state.user is not ANONYMOUS and len(route.pairs) <= _MOST_PAIRS:
        key = (request.method, request.path, request.query)
        routes.put(key, route, len(request.path) + len(request.query))


def _verb_of(method: str, target: Target, entry: CatalogEntry | None) -> Verb | Exception:
    """The verb for a request; or the error, 404 for an unknown path, 405 for an unsupported method."""
    if entry is None or (bool(target.namespace) != entry.namespaced and not _across(target, entry)):
        return NoSuchPath()
    if target.path:
        return NoSuchPath()
    if target.subresource:
        return _subresource_verb(method, target, entry)
    elsewhere = entry.namespaced and not target.namespace and target.verb not in ("list", "watch")
    if elsewhere and target.name:
        return NoSuchPath()
    if elsewhere or method not in ("GET", "POST", "PUT", "PATCH", "DELETE") or target.verb not in _VERBS:
        return MethodNotAllowed()
    if (target.verb == "create" and target.name) or (target.verb in ("update", "patch") and not target.name):
        return MethodNotAllowed()
    if target.verb not in entry.verbs:
        if target.verb == "watch":
            return MethodNotAllowed(entry.group_resource, "watch")
        return MethodNotAllowed()
    return _VERBS[target.verb]


def _may_wait(resource: AnyResource, target: Target) -> bool:
    """Whether this request may run asynchronous code of the resource's author. Admission takes a task itself."""
    return resource_waits(resource.served) or target.subresource in resource.served.hooks.subresources


def _across(target: Target, entry: CatalogEntry) -> bool:
    """Whether a namespaced resource is requested in all namespaces."""
    return entry.namespaced and not target.namespace


def _subresource_verb(method: str, target: Target, entry: CatalogEntry) -> Verb | Exception:
    subresource = entry.subresources.get(target.subresource)
    if subresource is None or (entry.namespaced and not target.namespace):
        return NoSuchPath()
    verb = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, "")
    if verb not in subresource.verbs:
        return MethodNotAllowed()
    if target.subresource == "scale" and entry.scaling is not None:
        return get_scale if verb == "get" else _VERBS[verb]
    if target.subresource == "status":
        return _VERBS[verb]
    hook = entry.served.hooks.subresources.get(target.subresource)
    if isinstance(hook, StreamHook | ConnectHook):
        return stream_text if isinstance(hook, StreamHook) else connect
    return call_hook


def _head(entry: CatalogEntry) -> bytes:
    """The JSON before a body of this version."""
    return b'{"apiVersion":"%s","kind":"%s",' % (entry.api_version.encode(), entry.gvk.kind.encode())


def _raiser(error: Exception) -> Verb:
    async def refuse(state: RequestState, route: Route) -> Response:
        raise error

    return refuse
