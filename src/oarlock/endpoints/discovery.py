"""Discovery: the groups, versions and resources of the server, which clients ask for first.

`DiscoveryDocuments` has the documents of one catalog as bytes, and answers with them: one for each group and version,
or the aggregated one for all. Each is encoded once per media type, on first request, of `DiscoveryPieces` that the next
catalog has too.
Must not know: sockets, users. Source: KEP-3352, ``apidiscovery.k8s.io/v2``; k8s.io/apimachinery ``meta/v1``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from oarlock.codec import json
from oarlock.endpoints.catalog import Catalog, CatalogEntry, CatalogGroup
from oarlock.endpoints.http import Response
from oarlock.endpoints.respond import Accepted, document, negotiate_discovery
from oarlock.meta.errors import NoSuchPath
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind
from oarlock.registry.workers import Offload, at_once
from oarlock.schema.definition import Subresource


def api_group_discovery_list(groups: list[Any]) -> Tree:
    """The v2 document of these groups, in their order."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": groups,
    }


def api_group_discovery(name: str, versions: list[Any]) -> Tree:
    """A group with its versions, preferred first."""
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def api_version_discovery(version: str, resources: list[Any]) -> Tree:
    """A version that is served here, with its resources sorted by name."""
    return {"version": version, "resources": resources, "freshness": "Current"}


def api_resource_discovery(entry: CatalogEntry) -> Tree:
    """A resource with its subresources."""
    names = entry.definition.names
    tree: Tree = {
        "resource": names.plural,
        "responseKind": _response_kind(entry, entry.gvk),
        "scope": entry.definition.scope,
        "singularResource": names.singular,
        "verbs": list(entry.verbs),
    }
    if names.short_names:
        tree["shortNames"] = list(names.short_names)
    if names.categories:
        tree["categories"] = list(names.categories)
    if entry.subresources:
        tree["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(entry, sub.kind),
                "verbs": sorted(sub.verbs),
            }
            for sub in subresources_of(entry)
        ]
    return tree


def subresources_of(entry: CatalogEntry) -> Iterable[Subresource]:
    """The subresources by name; of custom resources the status is the first."""
    found = entry.subresources.values()
    return sorted(found, key=lambda sub: sub.name) if entry.definition.typed else found


def _response_kind(entry: CatalogEntry, gvk: GroupVersionKind) -> Tree:
    """The kind that a resource's requests and responses have. It is never null: client-go 0.26.0 to 0.26.3 would crash.

    Group and version are empty when they are the resource's own, unless that is a custom one.
    """
    own = entry.definition.typed and gvk.api_version == entry.api_version
    return {"group": "" if own else gvk.group, "version": "" if own else gvk.version, "kind": gvk.kind}


def api_versions(core: CatalogGroup, server_address: str) -> Tree:
    """``/api``: the versions of the core group, with the server's address, as kube-apiserver answers."""
    return {
        "kind": "APIVersions",
        "versions": list(core.versions),
        "serverAddressByClientCIDRs": _addresses(server_address),
    }


def api_group_list(groups: Iterable[CatalogGroup], server_address: str) -> Tree:
    """``/apis``: every group but the core one.

    Without apiVersion, and with the port only as address, as recorded from an extension API server; with a core group
    as kube-apiserver answers.
    """
    groups = list(groups)
    if any(not group.name for group in groups):
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group) for group in groups if group.name]}
    port = server_address[server_address.rfind(":") :]
    named = [{**_group(group), "serverAddressByClientCIDRs": _addresses(port)} for group in groups if group.name]
    return {"kind": "APIGroupList", "groups": named}


def api_group(group: CatalogGroup) -> Tree:
    """``/apis/{group}``."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}


def api_resource_list(group: CatalogGroup, version: str, resources: list[Any]) -> Tree:
    """``/apis/{group}/{version}``: its resources and subresources, sorted by name."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group.group_version(version),
        "resources": resources,
    }


def _group(group: CatalogGroup) -> Tree:
    versions = [{"groupVersion": group.group_version(v), "version": v} for v in group.versions]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def _addresses(server_address: str) -> list[Tree]:
    return [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}]


def api_resources(entry: CatalogEntry) -> list[Tree]:
    """A resource and its subresources."""
    names = entry.definition.names
    main: Tree = {
        "name": names.plural,
        "singularName": names.singular,
        "namespaced": entry.namespaced,
        "kind": names.kind,
        "verbs": list(entry.verbs),
    }
    if names.short_names:
        main["shortNames"] = list(names.short_names)
    if names.categories:
        main["categories"] = list(names.categories)
    if entry.served.virtual is None:
        main["storageVersionHash"] = storage_version_hash(entry.definition.gvk(entry.definition.stored_as))
    trees = [main]
    for sub in subresources_of(entry):
        tree: Tree = {"name": f"{names.plural}/{sub.name}", "singularName": "", "namespaced": entry.namespaced}
        if sub.kind.api_version != entry.api_version:
            tree["group"] = sub.kind.group
            tree["version"] = sub.kind.version
        trees.append({**tree, "kind": sub.kind.kind, "verbs": sorted(sub.verbs)})
    return trees


def storage_version_hash(gvk: GroupVersionKind) -> str:
    """The storageVersionHash: lets clients notice a change of the storage version."""
    return base64.b64encode(hashlib.sha256(f"{gvk.group}/{gvk.version}/{gvk.kind}".encode()).digest()[:8]).decode()


_encode = msgspec.json.Encoder().encode


class GroupPiece(NamedTuple):
    """A group in aggregated discovery, and its digest."""

    json: msgspec.Raw
    digest: bytes


class _EntryPiece(NamedTuple):
    """A resource in aggregated discovery; and with its subresources in the list of its version."""

    aggregated: msgspec.Raw
    listed: tuple[msgspec.Raw, ...]


class DiscoveryPieces:
    """The pieces of all catalogs of a server."""

    def __init__(self) -> None:
        self._entries: WeakKeyDictionary[CatalogEntry, _EntryPiece] = WeakKeyDictionary()
        self._groups: WeakKeyDictionary[CatalogGroup, GroupPiece] = WeakKeyDictionary()

    def group(self, group: CatalogGroup) -> GroupPiece:
        """The group in aggregated discovery."""
        found = self._groups.get(group)
        if found is None:
            versions = [self._version(group, version) for version in group.versions]
            data = _encode(api_group_discovery(group.name, versions))
            found = self._groups[group] = GroupPiece(msgspec.Raw(data), hashlib.sha512(data).digest())
        return found

    def listed(self, group: CatalogGroup, version: str) -> list[msgspec.Raw]:
        """The resources of a version that is served here, sorted by name, each with its subresources behind it.

        Those are sorted too, but of custom resources the status is the first.
        """
        entries = sorted(group.of_version(version), key=lambda entry: entry.definition.names.plural)
        return [piece for entry in entries for piece in self._entry(entry).listed]

    def _version(self, group: CatalogGroup, version: str) -> Any:
        proxied = group.proxied.get(version)
        if proxied is not None:
            return _piece(proxied.documents.discovery())
        resources = [self._entry(entry).aggregated for entry in group.of_version(version)]
        return api_version_discovery(version, resources)

    def _entry(self, entry: CatalogEntry) -> _EntryPiece:
        found = self._entries.get(entry)
        if found is None:
            listed = tuple(_piece(tree) for tree in api_resources(entry))
            found = self._entries[entry] = _EntryPiece(_piece(api_resource_discovery(entry)), listed)
        return found


def _piece(tree: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(json.encode(tree))


FEW = 100
"""A document of no more resources is written on the event loop: that takes some milliseconds."""

_raw = msgspec.json.Encoder().encode


class DiscoveryDocuments:
    """The documents of one catalog. `server_address` is where clients reach this server (``host:port``).

    `offload` runs slow steps in a thread. What `before` has encoded, and is the same, is used again.
    """

    __slots__ = ("_bytes", "_catalog", "_etags", "_groups", "_offload", "_pieces", "_server_address")

    def __init__(
        self,
        catalog: Catalog,
        server_address: str = "",
        offload: Offload = at_once,
        before: DiscoveryDocuments | None = None,
    ) -> None:
        self._catalog = catalog
        self._groups = catalog.in_order()
        self._server_address = server_address
        self._offload = offload
        self._pieces: DiscoveryPieces = before._pieces if before is not None else DiscoveryPieces()
        self._bytes: dict[tuple[str, str, bool], bytes] = {}
        self._etags: dict[str, str] = {}

    async def respond(
        self, path: str, accept: str = "", if_none_match: str = "", *, pretty: bool = False
    ) -> Response | None:
        """The answer to a GET of `path`, with or without a slash at its end; None when no document is there.

        Raises `NotAcceptable`, and `NoSuchPath` for a version that a served group doesn't have.
        """
        trimmed = path.rstrip("/")
        make = self._maker(trimmed)
        if make is None:
            return None
        at_root = trimmed in ("/api", "/apis")
        accepted = negotiate_discovery(accept, aggregated=at_root)
        pretty = pretty or bool(accepted.pretty)
        if accepted.as_kind is None:
            body = await self._encoded(trimmed, make, accepted.media_type, pretty)
            return Response(200, [("content-type", accepted.response_content_type)], body)
        return await self._aggregated(trimmed, accepted, if_none_match, pretty)

    async def _aggregated(self, path: str, accepted: Accepted, if_none_match: str, pretty: bool) -> Response:
        groups = [group for group in self._groups if bool(group.name) == (path == "/apis")]

        def etag_now() -> str:
            return etag_of(b"".join([self._pieces.group(group).digest for group in groups]))

        def make() -> Tree:
            return api_group_discovery_list([self._pieces.group(group).json for group in groups])

        etag = self._etags.get(path)
        if etag is None:  # the same for every encoding
            etag = self._etags[path] = await self._offload_if_large(etag_now)
        headers = [("etag", etag), ("vary", "Accept"), ("cache-control", "public")]
        if etag_matches(if_none_match, etag):
            return Response(304, headers)
        body = await self._encoded(f"{path} aggregated", make, accepted.media_type, pretty)
        return Response(200, [("content-type", accepted.response_content_type), *headers], body)

    def _maker(self, path: str) -> Callable[[], Tree] | None:
        parts = path.split("/")[1:]
        match parts:
            case ["apis"]:
                return lambda: api_group_list(self._groups, self._server_address)
            case ["apis", name] if name and (found := self._catalog.group(name)) is not None:
                return lambda: api_group(found)
            case ["api"] if (core := self._catalog.group("")) is not None:
                return lambda: api_versions(core, self._server_address)
            case ["apis", name, version] if name and (group := self._catalog.group(name)) is not None:
                pass
            case ["api", version] if (group := self._catalog.group("")) is not None:
                pass
            case _:
                return None
        return self._list_maker(group, version)

    def _list_maker(self, group: CatalogGroup, version: str) -> Callable[[], Tree] | None:
        if version not in group.versions:
            if self._catalog.is_custom(group.name):
                return None
            raise NoSuchPath
        return lambda: api_resource_list(group, version, self._pieces.listed(group, version))

    async def _encoded(self, name: str, make: Callable[[], Tree], media_type: str, pretty: bool) -> bytes:
        key = (name, media_type, pretty)
        body = self._bytes.get(key)
        if body is None:
            body = self._bytes[key] = await self._offload_if_large(lambda: document(_raw(make()), media_type, pretty))
        return body

    async def _offload_if_large(self, step: Callable[[], Any]) -> Any:
        """The result of `step`, run in a thread if there are many resources."""
        many = sum(len(group.resources) for group in self._groups) > FEW
        return await self._offload(step) if many else step()


def etag_of(body: bytes) -> str:
    """The ETag of what a document is made of: its SHA-512, in quotes."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def etag_matches(if_none_match: str, etag: str) -> bool:
    """Whether ``If-None-Match`` names this ETag (RFC 9110 §13.1.2)."""
    if not if_none_match:
        return False
    return if_none_match.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
