"""Aggregated discovery: APIGroupDiscoveryList v2, all groups in one answer.

Must not know: headers. Source: KEP-3352, ``apidiscovery.k8s.io/v2``. See also: `documents`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oarlock.endpoints.catalog import CatalogEntry
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.definition import Subresource

__all__ = [
    "api_group_discovery",
    "api_group_discovery_list",
    "api_resource_discovery",
    "api_version_discovery",
    "subresources_of",
]


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
    """Never null, or client-go 0.26.0 to 0.26.3 would crash.

    Group and version are empty when they are the resource's own, unless that is a custom one.
    """
    own = entry.definition.typed and gvk.api_version == entry.api_version
    return {"group": "" if own else gvk.group, "version": "" if own else gvk.version, "kind": gvk.kind}
