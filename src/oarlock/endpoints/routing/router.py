"""From method and path to the verb that answers: `Router`, over one immutable `RouteTable` per catalog.

`resolve` is called by the chain before authentication, `dispatch` at its end. The routes of known users are cached;
those of a group go when it changes, so a new catalog takes effect between two requests.
Must not know: filters, sockets. See also: `find_route`, which makes routes; ``verbs``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import ANONYMOUS, RequestState, Route, RouteKind, close_all
from oarlock.endpoints.routing.find_route import ProcessPaths, RouteFinder, parse_target
from oarlock.endpoints.routing.route_table import RouteTable
from oarlock.endpoints.watching.watch_book import WatchBook
from oarlock.meta.errors import NoSuchPath, ServiceUnavailable, StorageReadError, TooManyRequests

_OF_CATALOG = ("/apis", "/openapi")
"""The paths of documents made of the catalog, and of what may be in a newer one."""

_MOST_PAIRS = 16
"""Routes with more query parameters aren't cached: each may take a hundred bytes for two bytes of the query."""

CatchUp = Callable[[], Awaitable[bool]]
"""Brings the catalog up to date with the store; returns whether it may have been behind."""


class Router:
    """Finds routes and calls verbs. `process` answers the paths of the process, such as health checks.

    With `catch_up`, an answer about the catalog, or about what isn't in it, waits until it is up to date. As long as it
    isn't `complete`, what isn't in it may be tried again later.
    """

    def __init__(
        self, process: ProcessPaths, catch_up: CatchUp | None = None, complete: Callable[[], bool] = lambda: True
    ) -> None:
        self.watches = WatchBook()
        self._catch_up = catch_up
        self._complete = complete
        self._process = process
        self._finder = RouteFinder(self.watches, process)
        self._route_table: RouteTable | None = None

    def replace(self, route_table: RouteTable, idle: Callable[[], None]) -> None:
        """Serve `route_table` from the next request on; what goes on for resources it hasn't ends.

        `idle` is called once every request about something that it hasn't, or has otherwise, has ended.
        """
        before, self._route_table = self._route_table, route_table
        if before is None:
            idle()
            return
        self.watches.withdraw(before.withdrawn(route_table), route_table.catalog.find)
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
            state.is_long_running = state.target.verb == "watch"
            return
        route = route_table.routes.get(key)
        if route is None:
            route = self._finder.find(route_table, *key)
        state.route = route
        state.target = route.target
        state.is_long_running = route.is_long_running

    async def dispatch(self, state: RequestState) -> Response:
        """Carry out the request. Raises errors that `errors.error_response` can answer."""
        route = state.route
        if route is None:
            return await self._answer_without_catalog(state)
        if route.kind is RouteKind.PATH and self._catch_up is not None and state.request.path.startswith(_OF_CATALOG):
            if not self._complete():
                return await self._answer_early(state, route)
            route = await self._current(state, route, self._catch_up)
        requests = route.requests
        if requests.closed:
            # The catalog was replaced since this was resolved, and the route may be for a resource that is gone.
            self.resolve(state)
            return await self.dispatch(state)
        requests.count += 1
        try:
            if not route.is_cached:
                self.cache_route(state, route)
            return await route.answer(state, route)
        except StorageReadError:
            if requests.closed:
                # The object was written meanwhile in a version that only the new definition has.
                raise TooManyRequests("the definition of the resource was replaced meanwhile: try again") from None
            raise
        finally:
            requests.count -= 1
            if requests.closed:
                requests.settle()

    async def _answer_without_catalog(self, state: RequestState) -> Response:
        """The answer of the process itself, such as to a probe. Raises ServiceUnavailable where it has none."""
        own = await self._process(state)
        if own is None:
            raise _not_yet()
        return own

    async def _answer_early(self, state: RequestState, route: Route) -> Response:
        """The answer by a catalog that isn't complete. Raises ServiceUnavailable where that has none."""
        try:
            response = await route.answer(state, route)
        except NoSuchPath:
            raise _not_yet() from None
        if response.status == 404:
            raise _not_yet()
        return response

    async def _current(self, state: RequestState, route: Route, catch_up: CatchUp) -> Route:
        """The route by a catalog that has everything the store had when the request came."""
        table = self._route_table
        if await catch_up() and self._route_table is not table:
            self.resolve(state)
            return state.route or route
        return route

    def cache_route(self, state: RequestState, route: Route) -> None:
        """Cache `route` for authenticated users only, since anonymous clients could fill the cache."""
        route.is_cached = True
        request = state.request
        if self._route_table is not None and state.user is not ANONYMOUS and len(route.pairs) <= _MOST_PAIRS:
            key = (request.method, request.path, request.query)
            self._route_table.routes.put(key, route, len(request.path) + len(request.query))


def _not_yet() -> ServiceUnavailable:
    return ServiceUnavailable(
        "the request has been made before all known HTTP paths have been installed, please try again",
        details={},
        retry_after_s=5,
    )
