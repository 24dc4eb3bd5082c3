"""`ServedKinds`: every kind that a server serves, whoever serves it there.

A client asks discovery for them. In the server's own process `LiveKinds` reads them from the catalog, of which it looks
at nothing twice. See also: ``client.kinds``, which finds a single one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any
from weakref import WeakKeyDictionary

from oarlock.client.client import Client
from oarlock.client.kinds import ResourceRef
from oarlock.endpoints.catalog import Catalog, CatalogEntry, CatalogGroup
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupResource, GroupVersionKind
from oarlock.server.description import LiveCatalog

_ACCEPT = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A resource in one version, with what can be done with it."""

    ref: ResourceRef
    verbs: frozenset[str]

    @property
    def resource(self) -> GroupResource:
        return self.ref.resource


@dataclass(frozen=True, slots=True)
class ServedKinds:
    """Kinds by how an object names its own (``apps/v1``, ``Deployment``), and by resource in the preferred version.

    `stale` are the group versions whose server didn't say what it serves.
    """

    by_kind: dict[tuple[str, str], ServedKind] = field(default_factory=dict)
    by_resource: dict[GroupResource, ServedKind] = field(default_factory=dict)
    stale: tuple[str, ...] = ()

    def with_verbs(self, *verbs: str) -> Iterator[ServedKind]:
        """Each resource once, if it has all these verbs."""
        return (kind for kind in self.by_resource.values() if kind.verbs.issuperset(verbs))


@dataclass(frozen=True, slots=True)
class _GroupKinds:
    kinds: tuple[ServedKind, ...]
    stale: tuple[str, ...]


class LiveKinds:
    """Reads one catalog after the other; of the next one, only the groups that have changed."""

    def __init__(self) -> None:
        self._groups: WeakKeyDictionary[CatalogGroup, _GroupKinds] = WeakKeyDictionary()
        self._last: tuple[Catalog, ServedKinds] | None = None

    async def now(self, live: LiveCatalog) -> ServedKinds:
        """What `live` serves, with all that is known to the server by now."""
        for source in live.sources:
            await source.caught_up()
        return self.read(await live.after(None))

    def read(self, catalog: Catalog) -> ServedKinds:
        """What `catalog` serves. The same object for the same catalog."""
        if self._last is None or self._last[0] is not catalog:
            self._last = (catalog, self._read(catalog))
        return self._last[1]

    def _read(self, catalog: Catalog) -> ServedKinds:
        kinds: dict[tuple[str, str], ServedKind] = {}
        resources: dict[GroupResource, ServedKind] = {}
        stale: list[str] = []
        for group in catalog.in_order():
            found = self._groups.get(group)
            if found is None:
                found = self._groups[group] = _kinds_of_group(group)
            stale += found.stale
            for kind in found.kinds:
                kinds[kind.ref.api_version, kind.ref.kind] = kind
                resources.setdefault(kind.resource, kind)
        return ServedKinds(kinds, resources, tuple(stale))


def _kinds_of_group(group: CatalogGroup) -> _GroupKinds:
    kinds: list[ServedKind] = []
    stale: list[str] = []
    for version in group.versions:
        proxied = group.proxied.get(version)
        if proxied is None:
            kinds += map(_kind_of_entry, group.of_version(version))
            continue
        document = proxied.documents.discovery()
        if document.get("freshness") == "Stale":
            stale.append(group.group_version(version))
        kinds += _kinds_of(group.name, document)
    return _GroupKinds(tuple(kinds), tuple(stale))


def _kind_of_entry(entry: CatalogEntry) -> ServedKind:
    ref = ResourceRef(entry.group_resource, entry.version.name, entry.gvk.kind, entry.namespaced)
    return ServedKind(ref, frozenset(entry.verbs))


def find_kind(catalog: Catalog | None, kind: GroupVersionKind) -> ResourceRef | None:
    """The resource that has a kind in `catalog`, whoever serves it."""
    group = None if catalog is None else catalog.groups.get(kind.group)
    if group is None or kind.version not in group.versions:
        return None
    entry = group.of_kind(kind.version, kind.kind)
    if entry is not None:
        return _kind_of_entry(entry).ref
    proxied = group.proxied.get(kind.version)
    kinds = () if proxied is None else _kinds_of(group.name, proxied.documents.discovery())
    return next((found.ref for found in kinds if found.ref.kind == kind.kind), None)


async def served_kinds(client: Client) -> ServedKinds:
    """Ask the server. Raises StatusError, TransportError."""
    legacy = await client.request("GET", "/api", headers=_ACCEPT)
    groups = await client.request("GET", "/apis", headers=_ACCEPT)
    kinds: dict[tuple[str, str], ServedKind] = {}
    resources: dict[GroupResource, ServedKind] = {}
    stale: list[str] = []
    for group, version in _versions((legacy, groups)):
        if version.get("freshness") == "Stale":
            stale.append(f"{group}/{version['version']}")
        for kind in _kinds_of(group, version):
            kinds[kind.ref.api_version, kind.ref.kind] = kind
            resources.setdefault(kind.resource, kind)
    return ServedKinds(kinds, resources, tuple(stale))


def _versions(documents: Iterable[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in documents:
        for group in document.get("items") or ():
            for version in group.get("versions") or ():
                yield group.get("metadata", {}).get("name", ""), version


def _kinds_of(group: str, version: dict[str, Any]) -> Iterator[ServedKind]:
    for entry in version.get("resources") or ():
        kind = (entry.get("responseKind") or {}).get("kind", "")
        if kind:
            resource = GroupResource(group, entry["resource"])
            namespaced = entry.get("scope") == "Namespaced"
            ref = ResourceRef(resource, version["version"], kind, namespaced)
            yield ServedKind(ref, frozenset(entry.get("verbs") or ()))
