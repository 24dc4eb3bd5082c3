"""The answers outside every resource: discovery, OpenAPI, version, health checks, metrics, else the index of paths.

See also: `find_route`, whose routes lead to them; `route_table`, which has the documents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import JSON, Accepted, compressed, is_pretty
from oarlock.endpoints.routing import index
from oarlock.endpoints.routing.route import PathAnswer, PathRoute
from oarlock.endpoints.routing.route_table import RouteTable
from oarlock.meta.errors import MethodNotAllowed, NoSuchPath

ProcessPaths = Callable[[RequestState], Awaitable[Response | None]]
"""Answers the paths of the process (health, metrics); returns None for any other path."""


def own_path(table: RouteTable, process: ProcessPaths) -> PathAnswer:
    """What answers the paths outside the resources of `table`."""

    async def answer_own_path(state: RequestState, route: PathRoute) -> Response:
        response = await process(state)
        if response is not None:
            return response
        path = route.target.path or state.request.path
        response = await _document(table, state, route, path)
        if response is None:
            if _below_a_served_version(path, table.catalog) or _below_a_group_of_kubernetes(path, table.catalog):
                raise NoSuchPath()
            return table.index.respond(path)
        if state.request.method != "GET":
            raise MethodNotAllowed()
        return response

    return answer_own_path


async def _document(table: RouteTable, state: RequestState, route: PathRoute, path: str) -> Response | None:
    headers = state.request.headers
    accept, match = headers.get("accept", ""), headers.get("if-none-match", "")
    if path.rstrip("/") == "/version":
        return index.respond(table.about.version)
    if path.startswith("/openapi/"):
        response = await table.openapi.respond(path, route.pairs, accept, match, now=state.clock.now())
        return None if response is None else await compressed(state, response)
    pretty = is_pretty(state, route, Accepted(JSON))
    return await table.discovery.respond(path, accept, match, pretty=pretty)


def _below_a_served_version(path: str, catalog: Catalog) -> bool:
    """Whether a path that names no resource (an empty segment, a NUL) is below a served version."""
    root, _, rest = path.lstrip("/").partition("/")
    group, _, rest = rest.partition("/")
    version, _, rest = rest.partition("/")
    return root == "apis" and bool(rest.strip("/")) and catalog.serves(group, version)


def _below_a_group_of_kubernetes(path: str, catalog: Catalog) -> bool:
    """Whether a path is below a served group of Kubernetes' own, beside the core group.

    As in kube-apiserver, a 404 below its own groups is a Status, and one below those of custom resources is plain text.
    """
    root, _, rest = path.lstrip("/").partition("/")
    group, below, _ = rest.partition("/")
    its_own = "." not in group or group.endswith(".k8s.io")
    served = root == "apis" and bool(below) and its_own and catalog.group("") is not None
    return served and bool(group) and catalog.group(group) is not None
