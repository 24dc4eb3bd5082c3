"""`RouteFinder`: makes the route of a request that isn't cached: to a resource, another server, a path, or an error.

`parse_target` reads the path. `choose` says which verb answers, or which error: 404 for an unknown path, 405 for a
method it doesn't have. `own_path` answers outside every resource: discovery, OpenAPI, version, health checks, metrics,
else the index of paths.
Must not know: requests in progress. See also: `router`, which caches routes; ``verbs``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from oarlock.endpoints.catalog import Catalog, CatalogEntry, Proxied
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState, Route, RouteKind
from oarlock.endpoints.respond import JSON, Accepted, compressed, is_pretty
from oarlock.endpoints.routing import index
from oarlock.endpoints.routing.index import not_found
from oarlock.endpoints.routing.route import PathAnswer, PathRoute, ResourceRoute, Verb
from oarlock.endpoints.routing.route_table import RouteTable
from oarlock.endpoints.verbs.connect import connect, stream_text
from oarlock.endpoints.verbs.delete import delete, delete_collection
from oarlock.endpoints.verbs.read import cached_get, get, list_collection
from oarlock.endpoints.verbs.subresource import METHODS, call_hook, forward, proxy
from oarlock.endpoints.verbs.watch import stored_events, virtual_events, watch
from oarlock.endpoints.verbs.write import create, patch, update
from oarlock.endpoints.watching.watch_book import WatchBook
from oarlock.meta import fields, options_parse
from oarlock.meta.context import Target
from oarlock.meta.errors import BadRequest, MethodNotAllowed, NoSuchPath, NotFound, StatusError
from oarlock.meta.go import percent
from oarlock.meta.go.gotext import quote
from oarlock.meta.kinds import version_priority
from oarlock.meta.options_parse import QueryPairs
from oarlock.registry.live_resources import AnyResource
from oarlock.registry.served import AnyHook, ConnectHook, ForwardHook, ProxyHook, StreamHook
from oarlock.registry.served_resource import StoredVerbs, VirtualVerbs
from oarlock.registry.workers import ensure_task

_METHOD_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


def parse_target(method: str, path: str, query_pairs: QueryPairs | Callable[[], QueryPairs] = ()) -> Target:
    """The target of `method` on `path` (percent-encoded, as sent).

    Verbs: ``get list watch create update patch delete deletecollection``; ``watch`` and ``proxy`` also for the legacy
    paths that begin with them; ``""`` for any other method. For a resource, `Target.path` is what follows the
    subresource (almost always ``""``); for a non-resource path it is the whole decoded path, and the verb is the method
    in lower case. The query is used (or, if a callable, requested) only for collections.

    Raises `BadRequest` for a path that isn't valid percent-encoded UTF-8, and for ``…/watch`` with nothing after it.
    """
    if "%" in path:
        path = _decoded(path)
    parts = path.strip("/").split("/")
    if parts[0] == "apis":
        first, group = 3, parts[1] if len(parts) > 3 else ""
    elif parts[0] == "api":
        first, group = 2, ""
    else:
        return Target(method.lower(), path=path)
    if len(parts) <= first or "" in parts or "\0" in path:
        return Target(method.lower(), path=path)
    version = parts[first - 1]
    verb = _METHOD_VERBS.get(method, "")
    by_path = parts[first] in ("watch", "proxy")
    if by_path:
        verb = parts[first]
        first += 1
        if len(parts) == first:
            raise BadRequest(f"unable to determine kind and namespace from url, {path}")
    namespace = ""
    if parts[first] == "namespaces" and len(parts) > first + 1:
        namespace = parts[first + 1]
        if len(parts) > first + 2 and parts[first + 2] not in _NAMESPACE_SUBRESOURCES:
            first += 2
    resource, name, subresource, rest = _relative(parts, first, proxied=verb == "proxy")
    if name or verb not in ("get", "delete"):
        return Target(verb, group, version, resource, subresource, namespace, name, path=rest)
    pairs = query_pairs() if callable(query_pairs) else query_pairs
    by_field, by_label = _first(pairs, "fieldSelector"), _first(pairs, "labelSelector")
    if verb == "get":
        verb = "watch" if is_watch(pairs) else "list"
        name = _selected_name(by_field)
    else:
        verb = "deletecollection"
    return Target(
        verb, group, version, resource, "", namespace, name, "", rest, field_selector=by_field, label_selector=by_label
    )


def is_watch(query_pairs: QueryPairs) -> bool:
    """Whether a query asks for a watch: the first ``watch`` is there and neither ``false`` nor ``0``."""
    for key, value in query_pairs:
        if key == "watch":
            return value.lower() not in ("false", "0")
    return False


def _decoded(path: str) -> str:
    bad = percent.bad_escape(path)
    if bad is not None:
        raise BadRequest(f"invalid URL escape {quote(bad)}")
    try:
        return percent.decoded(path).decode()
    except UnicodeDecodeError:
        raise BadRequest("the path of the request is not valid UTF-8") from None


def _relative(parts: list[str], first: int, *, proxied: bool) -> tuple[str, str, str, str]:
    """Resource, name, subresource and the rest; a proxy path has no subresource."""
    count = len(parts) - first
    resource = parts[first]
    name = parts[first + 1] if count > 1 else ""
    if proxied:
        return resource, name, "", "/".join(parts[first + 2 :])
    subresource = parts[first + 2] if count > 2 else ""
    return resource, name, subresource, "/".join(parts[first + 3 :]) if count > 3 else ""


def _first(query_pairs: QueryPairs, name: str) -> str:
    """The first value of a query parameter; the others don't count."""
    return next((value for key, value in query_pairs if key == name), "")


def _selected_name(selector: str) -> str:
    """The name in ``fieldSelector=metadata.name=…``, so that authorization for one name covers lists of it.

    It counts only if it can be parsed, and only a name that is valid in a path.
    """
    if "metadata.name" not in selector:
        return ""
    try:
        name = fields.parse(selector).exact("metadata.name") or ""
    except fields.FieldSelectorError:
        return ""  # the verb refuses it with a better message
    return "" if name in (".", "..") or "/" in name or "%" in name else name


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


_VERBS: Mapping[str, Verb] = {
    "get": get,
    "list": list_collection,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}

_NAMED = frozenset(("get", "update", "patch", "delete"))
"""Verbs of one object."""

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_SUBRESOURCE_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}

_READS: Mapping[tuple[tuple[str, str], ...], bool] = {(): True, (("resourceVersion", "0"),): False}
"""The queries of a GET that the cache may answer, and whether it has to be a consistent read."""


class ChosenVerb(NamedTuple):
    """The verb of a route, and the kind of its answer."""

    verb: Verb
    kind: RouteKind = RouteKind.RESOURCE


def choose(
    method: str, target: Target, pairs: list[tuple[str, str]], entry: CatalogEntry, resource: AnyResource
) -> ChosenVerb:
    """The verb for a request to `resource`; `pairs` is its query. Raises NoSuchPath, MethodNotAllowed."""
    in_all_namespaces = entry.namespaced and not target.namespace
    if bool(target.namespace) != entry.namespaced and not in_all_namespaces:
        raise NoSuchPath()
    if target.path and not (
        target.subresource in entry.subresources and entry.subresources[target.subresource].proxies
    ):
        raise NoSuchPath()
    if target.subresource:
        return _of_subresource(method, target, pairs, entry, resource)
    if in_all_namespaces and target.verb not in ("list", "watch"):
        # kube-apiserver has handlers for the path of built-in kinds, and none for that of custom resources
        raise NoSuchPath() if target.name or not entry.definition.typed else MethodNotAllowed()
    if target.name and not _NAMED.intersection(entry.verbs):
        raise NoSuchPath()
    if method not in _METHODS or (target.verb != "watch" and target.verb not in _VERBS):
        raise MethodNotAllowed()
    if target.verb in ("update", "patch") and not target.name:
        raise MethodNotAllowed()
    if target.verb == "create" and target.name and entry.definition.typed:
        raise MethodNotAllowed()  # kube-apiserver creates a custom resource by a POST to its own path too
    if target.verb not in entry.verbs:
        raise MethodNotAllowed(entry.group_resource, "watch") if target.verb == "watch" else MethodNotAllowed()
    return ChosenVerb(_of_resource(target, pairs, resource))


def _of_resource(target: Target, pairs: list[tuple[str, str]], resource: AnyResource) -> Verb:
    match resource:
        case VirtualVerbs() if target.verb == "watch":
            return watch(virtual_events(resource))
        case StoredVerbs() if target.verb == "watch":
            return watch(stored_events(resource))
        case StoredVerbs() if (
            target.verb == "get"
            and target.version == resource.definition.stored_as
            and not resource.definition.initializers
        ):
            consistent = _READS.get(tuple(pairs))
            if consistent is not None:
                return cached_get(resource, resource.key(target.namespace, target.name), consistent=consistent)
    return _VERBS[target.verb]


def _of_subresource(
    method: str, target: Target, pairs: list[tuple[str, str]], entry: CatalogEntry, resource: AnyResource
) -> ChosenVerb:
    subresource = entry.subresources.get(target.subresource)
    if subresource is None or (entry.namespaced and not target.namespace):
        raise NoSuchPath()
    hook = entry.served.hooks.subresources.get(target.subresource)
    verb = _SUBRESOURCE_VERBS.get(method, "")
    if method not in METHODS if isinstance(hook, ProxyHook) else verb not in subresource.verbs:
        raise MethodNotAllowed()
    if hook is not None:
        return _of_hook(hook)
    return ChosenVerb(_of_resource(target, pairs, resource) if target.subresource == "status" else _VERBS[verb])


def _of_hook(hook: AnyHook) -> ChosenVerb:
    match hook:
        case StreamHook():
            return ChosenVerb(stream_text(hook), RouteKind.STREAM)
        case ConnectHook():
            return ChosenVerb(connect(hook), RouteKind.CONNECTION)
        case ProxyHook():
            return ChosenVerb(proxy(hook), RouteKind.CONNECTION)
        case ForwardHook():
            return ChosenVerb(forward(hook), RouteKind.CONNECTION if hook.connects else RouteKind.STREAM)
    return ChosenVerb(call_hook(hook))


LONG_RUNNING = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources of other servers whose answers go on for as long as somebody listens. Source: kube-apiserver's own."""


class RouteFinder:
    """Makes routes. `process` answers the paths of the process; `watches` are the open-ended answers of the server."""

    def __init__(self, watches: WatchBook, process: ProcessPaths) -> None:
        self._watches = watches
        self._process = process

    def find(self, table: RouteTable, method: str, path: str, query: str) -> Route:
        """The route of a request, which may be to an error. Raises BadRequest for a path that can't be read."""
        pairs = options_parse.parse_query(query) if query else []
        target = parse_target(method, path, pairs)
        proxied = _proxied(table, target)
        if proxied is not None:
            goes_on = target.verb in ("watch", "proxy") or target.subresource in LONG_RUNNING
            kind = RouteKind.FORWARDED if goes_on else RouteKind.PATH
            return PathRoute(target, pairs, table.of_group[proxied.group], kind, _forward(proxied))
        if not target.resource or not table.catalog.serves(target.group, target.version):
            return PathRoute(target, pairs, table.requests, RouteKind.PATH, own_path(table, self._process))
        try:
            return self._to_resource(table, method, target, pairs)
        except StatusError as error:
            return PathRoute(target, pairs, table.requests, RouteKind.PATH, _refuse(error.with_traceback(None)))

    def _to_resource(self, table: RouteTable, method: str, target: Target, pairs: list[tuple[str, str]]) -> Route:
        """The route to a resource. Raises NoSuchPath, NotFound, MethodNotAllowed."""
        entry = table.catalog.find(target.group, target.version, target.resource)
        if entry is None:
            if table.catalog.is_custom(target.group):
                return PathRoute(target, pairs, table.requests, RouteKind.PATH, _answer_not_found)
            raise NoSuchPath()
        resource = table.resources[(target.group, target.resource)]
        place = target
        if target.resource == "namespaces" and not entry.namespaced:
            place = replace(target, namespace="", kind=entry.gvk.kind)
        try:
            verb, kind = choose(method, place, pairs, entry, resource)
        except NoSuchPath:
            if target.subresource and not entry.definition.typed:
                raise NotFound(entry.definition.group_resource, target.name) from None
            if table.catalog.is_custom(target.group):
                return PathRoute(target, pairs, table.requests, RouteKind.PATH, _answer_not_found)
            raise
        if place is not target:
            verb = _at(place, verb)
        shown, scaling = entry, None
        if target.subresource == "scale" and entry.scaling is not None:
            shown, scaling = table.scale, entry.scaling
        return ResourceRoute(
            replace(target, kind=entry.gvk.kind),
            pairs,
            table.of_group[target.group],
            kind,
            _prepared(verb, entry, target.subresource),
            entry=shown,
            resource=resource,
            scaling=scaling,
            gate=table.gate,
            watches=self._watches,
            head=b'{"apiVersion":"%s","kind":"%s",' % (shown.api_version.encode(), shown.gvk.kind.encode()),
        )


def _prepared(verb: Verb, entry: CatalogEntry, subresource: str) -> Verb:
    """`verb` with what comes before: the warning of a deprecated version, a task for code of the resource's author."""
    if entry.served.waits or subresource in entry.served.hooks.subresources:
        verb = _in_task(verb)
    warning = _deprecation(entry)
    return _warned(verb, warning) if warning else verb


def _in_task(verb: Verb) -> Verb:
    async def wait_for_task(state: RequestState, route: ResourceRoute) -> Response:
        await ensure_task()
        return await verb(state, route)

    return wait_for_task


def _at(place: Target, verb: Verb) -> Verb:
    """`verb` on a Namespace: until then it is in the namespace that it is, in whose roles permissions may be."""

    def go_there(state: RequestState, route: ResourceRoute) -> Awaitable[Response]:
        state.target = place
        return verb(state, route)

    return go_there


def _warned(verb: Verb, warning: str) -> Verb:
    alone = (warning,)

    def warn(state: RequestState, route: ResourceRoute) -> Awaitable[Response]:
        notes = state.notes
        if notes.warnings:
            notes.warn(warning)
        else:
            notes.warnings = alone
        return verb(state, route)

    return warn


def _deprecation(entry: CatalogEntry) -> str:
    """The warning for a deprecated version, or ``""``. Source: KEP-1693."""
    version = entry.version
    if not version.deprecated:
        return ""
    if version.deprecation_warning:
        return version.deprecation_warning
    kind, definition = entry.gvk.kind, entry.definition
    newer = [version.name for version in definition.served_versions() if not version.deprecated]
    best = newer[0] if newer and version_priority(newer[0]) < version_priority(version.name) else ""
    instead = f"; use {definition.api_version(best)} {kind}" if best else ""
    return f"{entry.api_version} {kind} is deprecated{instead}"


def _proxied(table: RouteTable, target: Target) -> Proxied | None:
    """The backend that requests for this target are forwarded to.

    A path that names no resource is only forwarded if it is that of the version, or of its OpenAPI document. Of other
    paths, the meaning at the backend was not authorized.
    """
    group, version = target.group, target.version
    if not target.resource:
        match target.path.removeprefix("/openapi/v3").removesuffix("/").split("/"):
            case ["", "apis", group, version]:
                pass
            case ["", "api", version]:
                group = ""
            case _:
                return None
    found = table.catalog.groups.get(group)
    return found.proxied.get(version) if found is not None else None


def _forward(proxied: Proxied) -> PathAnswer:
    async def forward(state: RequestState, route: PathRoute) -> Response:
        await ensure_task()
        return await proxied.answer(state)

    return forward


async def _answer_not_found(state: RequestState, route: PathRoute) -> Response:
    return not_found()


def _refuse(error: StatusError) -> PathAnswer:
    async def refuse(state: RequestState, route: PathRoute) -> Response:
        raise error

    return refuse
