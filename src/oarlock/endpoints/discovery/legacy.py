"""Unaggregated discovery: APIVersions, APIGroupList, APIGroup and APIResourceList, as trees.

Every client knows them; those that know `aggregated` can still fall back to them.
Must not know: bytes, headers. Source: k8s.io/apimachinery ``meta/v1``. See also: `documents`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import Any

from oarlock.endpoints.catalog import CatalogEntry, CatalogGroup
from oarlock.endpoints.discovery.aggregated import subresources_of
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind

__all__ = ["api_group", "api_group_list", "api_resource_list", "api_resources", "api_versions", "storage_version_hash"]


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
    return base64.b64encode(hashlib.sha256(f"{gvk.api_version}/{gvk.kind}".encode()).digest()[:8]).decode()
