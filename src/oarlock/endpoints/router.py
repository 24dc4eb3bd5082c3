"""From method and path to the verb that answers: `Router`, over one immutable `RouteTable` per catalog.

`resolve` is called by the chain before authentication, `dispatch` at its end. The routes of known users are cached;
those of a group go when it changes, so a new catalog takes effect between two requests.
Must not know: filters, sockets. See also: `verb_choice`; ``verbs``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from oarlock.endpoints.catalog import CatalogEntry, Proxied
from oarlock.endpoints.http import Response
from oarlock.endpoints.own_paths import ProcessPaths, own_path
from oarlock.endpoints.request_state import ANONYMOUS, RequestState, Route, RouteKind
from oarlock.endpoints.route import PathAnswer, PathRoute, ResourceRoute, Verb
from oarlock.endpoints.route_table import RouteTable
from oarlock.endpoints.target import parse_target
from oarlock.endpoints.verb_choice import choose
from oarlock.endpoints.wait_group import close_all
from oarlock.endpoints.watching.watch_book import WatchBook
from oarlock.meta import options_parse
from oarlock.meta.context import Target
from oarlock.meta.errors import NoSuchPath, ServiceUnavailable, StatusError, StorageReadError, TooManyRequests
from oarlock.registry.representation import WHOLE
from oarlock.registry.waiting import in_task, resource_waits

__all__ = ["Router"]

_MOST_PAIRS = 16
"""Routes with more query parameters aren't cached: each may take a hundred bytes for two bytes of the query."""


class Router:
    """Finds routes and calls verbs. `process` answers the paths of the process, such as health checks."""

    def __init__(self, process: ProcessPaths) -> None:
        self.watches = WatchBook()
        self._process = process
        self._route_table: RouteTable | None = None

    def replace(self, route_table: RouteTable, idle: Callable[[], None]) -> None:
        """Serve `route_table` from the next request on; what goes on for resources it hasn't ends.

        `idle` is called once every request about something that it hasn't, or has otherwise, has ended.
        """
        before, self._route_table = self._route_table, route_table
        if before is None:
            idle()
            return
        self.watches.withdraw(before.withdrawn(route_table))
        close_all(before.outdated(route_table), idle)
        route_table.routes.drop(lambda route: route.requests.closed)

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
        state.route = route
        state.target = route.target

    async def dispatch(self, state: RequestState) -> Response:
        """Carry out the request. Raises errors that `errors.error_response` can answer."""
        route = state.route
        if route is None:
            raise ServiceUnavailable(
                "the request has been made before all known HTTP paths have been installed, please try again",
                details={},
                retry_after_s=5,
            )
        requests = route.requests
        if requests.closed:
            # The catalog was replaced since this was resolved, and the route may be for a resource that is gone.
            self.resolve(state)
            return await self.dispatch(state)
        requests.count += 1
        try:
            if not route.is_cached:
                self.cache_route(state, route)
            return await route.respond(state)
        except StorageReadError:
            if requests.closed:
                # The object was written meanwhile in a version that only the new definition has.
                raise TooManyRequests("the definition of the resource was replaced meanwhile: try again") from None
            raise
        finally:
            requests.count -= 1
            if requests.closed:
                requests.settle()

    def cache_route(self, state: RequestState, route: Route) -> None:
        """Cache `route` for authenticated users only: anybody could fill the cache otherwise."""
        route.is_cached = True
        request = state.request
        if self._route_table is not None and state.user is not ANONYMOUS and len(route.pairs) <= _MOST_PAIRS:
            key = (request.method, request.path, request.query)
            self._route_table.routes.put(key, route, len(request.path) + len(request.query))

    def _find(self, table: RouteTable, method: str, path: str, query: str) -> Route:
        pairs = options_parse.parse_query(query) if query else []
        target = parse_target(method, path, pairs)
        proxied = _proxied(table, target)
        if proxied is not None:
            kind = RouteKind.STREAM if target.verb == "watch" else RouteKind.PATH
            return PathRoute(target, pairs, table.of_group[proxied.group], kind, _forward(proxied))
        if not target.resource or not table.catalog.serves(target.group, target.version):
            return PathRoute(target, pairs, table.requests, RouteKind.PATH, own_path(table, self._process))
        try:
            return self._to_resource(table, method, target, pairs)
        except StatusError as error:
            return PathRoute(target, pairs, table.requests, RouteKind.PATH, _refuse(error))

    def _to_resource(
        self, table: RouteTable, method: str, target: Target, pairs: list[tuple[str, str]]
    ) -> ResourceRoute:
        """The route to a resource. Raises NoSuchPath, MethodNotAllowed."""
        entry = table.catalog.find(target.group, target.version, target.resource)
        if entry is None:
            raise NoSuchPath()
        resource = table.resources[(target.group, target.resource)]
        verb, kind = choose(method, target, pairs, entry, resource)
        shown, represents = entry, WHOLE
        if target.subresource == "scale" and entry.scaling is not None:
            shown, represents = table.scale, entry.scaling
        return ResourceRoute(
            replace(target, kind=entry.gvk.kind),
            pairs,
            table.of_group[target.group],
            kind,
            verb=_prepared(verb, entry, target.subresource),
            entry=shown,
            resource=resource,
            represents=represents,
            gate=table.gate,
            watches=self.watches,
            head=b'{"apiVersion":"%s","kind":"%s",' % (shown.api_version.encode(), shown.gvk.kind.encode()),
        )


def _prepared(verb: Verb, entry: CatalogEntry, subresource: str) -> Verb:
    """`verb` with what comes before: the warning of a deprecated version, a task for code of the resource's author."""
    warning = _deprecation(entry)
    waits = resource_waits(entry.served) or subresource in entry.served.hooks.subresources
    if not warning and not waits:
        return verb

    async def prepare(state: RequestState, route: ResourceRoute) -> Response:
        if warning:
            state.notes.warn(warning)
        if waits:
            await in_task()
        return await verb(state, route)

    return prepare


def _deprecation(entry: CatalogEntry) -> str:
    """The warning for a deprecated version, or ``""``. Source: KEP-1693."""
    version = entry.version
    if not version.deprecated:
        return ""
    return version.deprecation_warning or f"{entry.api_version} {entry.gvk.kind} is deprecated"


def _proxied(table: RouteTable, target: Target) -> Proxied | None:
    """Who answers requests for this target elsewhere.

    A path that names no resource is only forwarded if it is that of the version, or of its OpenAPI document: nobody has
    authorized what the other server would understand by another one.
    """
    group, version = target.group, target.version
    if not target.resource:
        match target.path.removeprefix("/openapi/v3").strip("/").split("/"):
            case ["apis", group, version]:
                pass
            case ["api", version]:
                group = ""
            case _:
                return None
    found = table.catalog.groups.get(group)
    return found.proxied.get(version) if found is not None else None


def _forward(proxied: Proxied) -> PathAnswer:
    def forward(state: RequestState, route: PathRoute) -> Awaitable[Response]:
        return proxied.answer(state)

    return forward


def _refuse(error: Exception) -> PathAnswer:
    async def refuse(state: RequestState, route: PathRoute) -> Response:
        raise error

    return refuse
