"""`Catalog`: the resources that are served, as one immutable value that is replaced as a whole.

Everything derived from it (routes, discovery, OpenAPI) belongs to a `CatalogIndex`, built once per catalog and never
changed.
Must not know: requests, HTTP, policy. See also: ``router``, which finds the entry of a request here; ``discovery``,
which lists all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oarlock.codec.protowire import Message
from oarlock.endpoints.columns import TableColumns
from oarlock.endpoints.in_protobuf import message_of
from oarlock.meta.kinds import GroupKind, GroupResource, GroupVersion, GroupVersionKind, version_priority
from oarlock.patch.strategic_merge import MergeSchema, compile_schema
from oarlock.registry.scale import SCALE, Scaling
from oarlock.registry.served import Served
from oarlock.schema.definition import Subresource, VersionDefinition

__all__ = ["Catalog", "CatalogEntry", "CatalogError", "CatalogIndex", "ServedGroup"]


class CatalogError(ValueError):
    """Two resources of a catalog have the same name or kind."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The served resources. `generation` grows with every new catalog of the server."""

    generation: int
    entries: tuple[Served, ...]

    @classmethod
    def of(cls, entries: Iterable[Served], generation: int = 1) -> Catalog:
        """A catalog of these entries. Raises CatalogError if two in one group have the same resource name or kind."""
        catalog = cls(generation, tuple(entries))
        resources: set[GroupResource] = set()
        kinds: set[GroupKind] = set()
        for served in catalog.entries:
            definition = served.definition
            if definition.group_resource in resources:
                raise CatalogError(f"the resource {definition.group_resource} is served twice: give one another plural")
            if definition.group_kind in kinds:
                raise CatalogError(f"the kind {definition.group_kind} is served twice: give one another kind")
            resources.add(definition.group_resource)
            kinds.add(definition.group_kind)
        return catalog


class CatalogEntry:
    """One version of one resource, with everything that is computed once for its requests.

    `subresources` are those of this version by name, ``status`` included, with their verbs.
    """

    __slots__ = (
        "_columns",
        "_merge_schema",
        "_protobuf",
        "_sub_messages",
        "api_version",
        "definition",
        "group_resource",
        "gvk",
        "list_kind",
        "namespaced",
        "scaling",
        "served",
        "subresources",
        "verbs",
        "version",
    )

    def __init__(self, served: Served, version: VersionDefinition) -> None:
        definition = served.definition
        self.served = served
        self.definition = definition
        self.version = version
        self.gvk: GroupVersionKind = definition.gvk(version.name)
        self.api_version: str = self.gvk.api_version
        self.group_resource: GroupResource = definition.group_resource
        self.list_kind: str = definition.names.list_kind
        self.namespaced: bool = definition.namespaced
        self.verbs: tuple[str, ...] = served.verbs()
        self.subresources: dict[str, Subresource] = {s.name: s for s in self._subresources()}
        self.scaling = None if version.scale is None else Scaling(definition, version.scale)
        self._columns: TableColumns | None = None
        self._merge_schema: MergeSchema | None = None
        self._protobuf: list[Message | None] = []
        self._sub_messages: dict[str, tuple[Message | None, Message | None]] = {}

    @property
    def columns(self) -> TableColumns:
        """The columns of its Tables. Computed on first use."""
        if self._columns is None:
            self._columns = TableColumns(self.version)
        return self._columns

    @property
    def merge_schema(self) -> MergeSchema:
        """The schema for strategic merge patches. Computed on first use."""
        if self._merge_schema is None:
            self._merge_schema = compile_schema(self.version.schema)
        return self._merge_schema

    @property
    def protobuf(self) -> Message | None:
        """Its protobuf message; None without field numbers. Computed on first use."""
        if not self._protobuf:
            self._protobuf.append(message_of(self.version.schema, self.gvk.kind))
        return self._protobuf[0]

    def sub_messages(self, name: str) -> tuple[Message | None, Message | None]:
        """The protobuf messages of a user's subresource, body and answer; None without field numbers."""
        found = self._sub_messages.get(name)
        if found is None:
            sub = self.subresources[name]
            request, response = (
                message_of(schema, sub.kind.kind) if schema else None
                for schema in (sub.request_schema, sub.response_schema)
            )
            found = self._sub_messages[name] = request, response
        return found

    def _subresources(self) -> Iterable[Subresource]:
        if self.version.status:
            yield Subresource("status", ("get", "patch", "update"), self.gvk)
        if self.version.scale is not None:
            verbs = tuple(verb for verb in ("get", "patch", "update") if verb in self.verbs)
            if "get" in verbs:
                yield Subresource("scale", verbs, SCALE.gvk("v1"))
        yield from self.version.subresources

    def __repr__(self) -> str:
        return f"CatalogEntry({self.api_version} {self.definition.names.plural})"


@dataclass(frozen=True, slots=True)
class ServedGroup:
    """An API group: its versions, preferred first, each with its entries sorted by resource name."""

    name: str
    versions: tuple[str, ...]
    entries: dict[str, tuple[CatalogEntry, ...]]

    def group_version(self, version: str) -> str:
        return str(GroupVersion(self.name, version))


class CatalogIndex:
    """Indexes of a catalog. Built once per catalog; immutable.

    `groups` are in the catalog's order. A resource without a served version isn't in it.
    """

    __slots__ = ("_by_name", "_entries", "catalog", "groups")

    def __init__(self, catalog: Catalog, before: CatalogIndex | None = None) -> None:
        """Entries that are the same as in `before` are reused, with all that was computed for them."""
        self.catalog = catalog
        self._entries: dict[tuple[str, str, str], CatalogEntry] = {}
        known = before._entries if before is not None else {}
        groups: dict[str, dict[str, list[CatalogEntry]]] = {}
        for served in catalog.entries:
            group, plural = served.definition.group, served.definition.names.plural
            for version in served.definition.served_versions():
                key = (group, version.name, plural)
                entry = known.get(key)
                if entry is None or entry.served is not served:
                    entry = CatalogEntry(served, version)
                self._entries[key] = entry
                groups.setdefault(group, {}).setdefault(version.name, []).append(entry)
        self.groups: tuple[ServedGroup, ...] = tuple(_group(name, entries) for name, entries in groups.items())
        self._by_name = {group.name: group for group in self.groups}

    def find(self, group: str, version: str, resource: str) -> CatalogEntry | None:
        """The entry of a resource, or None."""
        return self._entries.get((group, version, resource))

    def group(self, name: str) -> ServedGroup | None:
        return self._by_name.get(name)

    def serves(self, group: str, version: str) -> bool:
        """Whether any resource is served in this group and version."""
        found = self._by_name.get(group)
        return found is not None and version in found.entries

    @property
    def entries(self) -> tuple[CatalogEntry, ...]:
        """Every version of every resource, in the catalog's order."""
        return tuple(self._entries.values())


def _group(name: str, entries: dict[str, list[CatalogEntry]]) -> ServedGroup:
    versions = tuple(sorted(entries, key=version_priority))
    return ServedGroup(
        name, versions, {v: tuple(sorted(entries[v], key=lambda e: e.definition.names.plural)) for v in versions}
    )
