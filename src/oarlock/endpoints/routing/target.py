"""Parses method, path and query of a request into a `Target`.

Router and authorization use the same result, so that the permission that is checked is for the place that is used.
Must not know: what is served; a target may name a resource that doesn't exist. Source: k8s.io/apiserver
``endpoints/request`` RequestInfo, reference rows "RequestInfo". See also: `find_route`.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.meta import fields
from oarlock.meta.context import Target
from oarlock.meta.errors import BadRequest
from oarlock.meta.go import percent
from oarlock.meta.go.gotext import quote
from oarlock.meta.options_parse import QueryPairs

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
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
    verb = _VERBS.get(method, "")
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
