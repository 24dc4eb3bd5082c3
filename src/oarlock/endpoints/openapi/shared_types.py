"""OpenAPI schemas that many kinds share: those every server has (ObjectMeta, Status…), and those of a release.

References are written ``{"$ref": "ObjectMeta"}``, or with the full name, and resolved by `documents_v3` and
`documents_v2`.
Must not know: which groups are served. Source: k8s.io/apimachinery ``meta/v1``. See also: `kinds`;
``schema.released``, where the data is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oarlock.endpoints.catalog import Catalog, CatalogEntry
from oarlock.endpoints.openapi.naming import META, definition_name
from oarlock.meta.built_in import BUILT_IN_GROUPS
from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.definition import Schema
from oarlock.schema.released.published import PublishedTypes, meta_types, published_types

__all__ = [
    "API_VERSION",
    "CONVENTIONS",
    "GVK",
    "KIND",
    "SCALE",
    "VERSION_INFO",
    "SharedTypes",
    "gvk_extension",
    "is_published",
    "types_of",
]


GVK = "x-kubernetes-group-version-kind"
# Clients show these texts as those of every kind: they are Kubernetes' own.
CONVENTIONS = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
API_VERSION: Schema = {
    "type": "string",
    "description": "APIVersion defines the versioned schema of this representation of an object. Servers should "
    "convert recognized schemas to the latest internal value, and may reject unrecognized values. "
    f"{CONVENTIONS}#resources",
}
KIND: Schema = {
    "type": "string",
    "description": "Kind is a string value representing the REST resource this object represents. Servers may infer "
    "this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. "
    f"{CONVENTIONS}#types-kinds",
}
VERSION_INFO = "io.k8s.apimachinery.pkg.version.Info"
SCALE = "io.k8s.api.autoscaling.v1.Scale"
_OF_EVERY_GROUP = (f"{META}DeleteOptions", f"{META}WatchEvent")


def gvk_extension(gvk: GroupVersionKind) -> Schema:
    return {"group": gvk.group, "kind": gvk.kind, "version": gvk.version}


def types_of(catalog: Catalog) -> PublishedTypes | None:
    """The types of the release whose kinds are served, if any are."""
    for name in BUILT_IN_GROUPS:
        group = catalog.groups.get(name)
        for served in group.resources.values() if group is not None else ():
            if served.definition.released:
                return published_types(served.definition.released)
    return None


def is_published(entry: CatalogEntry, types: PublishedTypes | None) -> bool:
    """Whether the kind of an entry is one of Kubernetes' own, whose type is known as Kubernetes publishes it."""
    return (
        types is not None
        and entry.definition.typed
        and entry.gvk.group in BUILT_IN_GROUPS
        and definition_name(entry.gvk) in types
    )


class SharedTypes:
    """The shared schemas by definition name; those that occur in every group list `versions` as their own."""

    def __init__(self, versions: Iterable[tuple[str, str]], types: PublishedTypes | None) -> None:
        self._versions = [*versions]
        self._types = types

    def __iter__(self) -> Iterator[str]:
        """The names of those that every server has."""
        return iter(meta_types())

    def __getitem__(self, name: str) -> Schema:
        found = meta_types().get(name)
        if found is None and self._types is not None:
            return self._types.schema(name)
        if found is None:
            raise KeyError(name)
        if name in _OF_EVERY_GROUP:
            kind = name.rpartition(".")[2]
            return {**found, GVK: [gvk_extension(GroupVersionKind(*version, kind)) for version in self._versions]}
        return found
