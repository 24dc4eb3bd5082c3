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
from oarlock.client.kinds import KindPath
from oarlock.endpoints.catalog import Catalog, CatalogEntry, CatalogGroup
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupResource
from oarlock.server.live_catalog import LiveCatalog

__all__ = ["LiveKinds", "ServedKind", "ServedKinds", "served_kinds"]

_ACCEPT = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A resource in one version."""

    resource: GroupResource
    version: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]

    @property
    def api_version(self) -> str:
        group = self.resource.group
        return f"{group}/{self.version}" if group else self.version

    @property
    def reference(self) -> str:
        """What a client calls it: ``apps/v1/Deployment``."""
        return f"{self.api_version}/{self.kind}"

    @property
    def path(self) -> KindPath:
        return KindPath(self.api_version, self.kind, self.resource.resource, self.namespaced)


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
                kinds[kind.api_version, kind.kind] = kind
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
    return ServedKind(
        entry.group_resource, entry.version.name, entry.gvk.kind, entry.namespaced, frozenset(entry.verbs)
    )


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
            kinds[kind.api_version, kind.kind] = kind
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
            yield ServedKind(resource, version["version"], kind, namespaced, frozenset(entry.get("verbs") or ()))
