"""Which verb answers a request, or which error: 404 for an unknown path, 405 for a method it doesn't have.

Must not know: requests in progress. See also: `find_route`, which makes a route of the answer; ``verbs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.request_state import RouteKind
from oarlock.endpoints.routing.route import Verb
from oarlock.endpoints.verbs.connect import connect
from oarlock.endpoints.verbs.create import create
from oarlock.endpoints.verbs.delete import delete
from oarlock.endpoints.verbs.delete_collection import delete_collection
from oarlock.endpoints.verbs.get import cached_get, get
from oarlock.endpoints.verbs.list import list_collection
from oarlock.endpoints.verbs.patch import patch
from oarlock.endpoints.verbs.proxy import METHODS, forward, proxy
from oarlock.endpoints.verbs.stream_text import stream_text
from oarlock.endpoints.verbs.subresource import call_hook
from oarlock.endpoints.verbs.update import update
from oarlock.endpoints.verbs.watch import watch
from oarlock.endpoints.verbs.watch_stored import stored_events
from oarlock.endpoints.verbs.watch_virtual import virtual_events
from oarlock.meta.context import Target
from oarlock.meta.errors import MethodNotAllowed, NoSuchPath
from oarlock.registry.live_resources import AnyResource
from oarlock.registry.served import AnyHook, ConnectHook, ForwardHook, ProxyHook, StreamHook
from oarlock.registry.served_resource import StoredVerbs, VirtualVerbs

__all__ = ["ChosenVerb", "choose"]

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
