"""`Catalog`: what is served, as one immutable value that is replaced as a whole; each group is a piece of it.

An entry is a `Served` or a `Proxied`. A group in which nothing changed is the same `CatalogGroup` in the next catalog,
and so is all that others have computed for it: routes, discovery, OpenAPI. In a changed group, the `CatalogEntry` of an
unchanged resource is the same. The columns of its Tables (`TableColumns`) are computed once per version.
Must not know: requests, policy. See also: ``router``, which finds the entry of a request here; ``discovery`` and
``openapi``, which list all of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from oarlock.codec import json
from oarlock.codec.kubernetes_messages import Message
from oarlock.endpoints.http import Response
from oarlock.endpoints.in_protobuf import message_for, message_of
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import (
    BUILT_IN_GROUPS,
    GroupKind,
    GroupResource,
    GroupVersion,
    GroupVersionKind,
    version_priority,
)
from oarlock.patch.strategic_merge import MergeSchema, compile_schema
from oarlock.registry.served import Served
from oarlock.registry.write.scale import SCALE, Scaling
from oarlock.schema.cells import compile_cell
from oarlock.schema.definition import Column, RowCells, Subresource, VersionDefinition

# Clients compare and show these two texts: they are Kubernetes' own.
NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow "
    "a client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
CREATED_DESCRIPTION = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed "
    "to be set in happens-before order across separate operations. Clients may not set this value. It is represented "
    "in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
NAME, CREATED = ".metadata.name", ".metadata.creationTimestamp"
AGE = Column("Age", CREATED, "date")


class TableColumns:
    """The columns of one version. `definitions` is their JSON. `row` computes all cells but the name, if it is given.

    `of_metadata` says that they show metadata only, so that the rest of an object needn't be parsed. `null_when_empty`
    says that a Table without rows has ``rows: null``, as the Go server's default Table does.
    """

    __slots__ = ("_cells", "_row", "definitions", "null_when_empty", "of_metadata")

    def __init__(self, version: VersionDefinition, row: RowCells | None = None) -> None:
        columns = version.columns or (AGE,)
        self.of_metadata = row is None and all(column.json_path in (NAME, CREATED) for column in columns)
        self.null_when_empty = self.of_metadata and not any(column.relative for column in columns)
        if not any((column.name, column.json_path) == ("Name", NAME) for column in columns):
            columns = (Column("Name", NAME, format="name"), *columns)
        self._row = row
        self._cells = (
            [_name if column.json_path == NAME else compile_cell(column, version.schema) for column in columns]
            if row is None
            else []
        )
        self.definitions: bytes = json.encode([_definition(column) for column in columns])

    def cells(self, tree: Tree, now: float) -> list[Any]:
        """The cells of an object; only its metadata is read if they are `of_metadata`.

        `now` is in seconds since the epoch, for ages.
        """
        if self._row is not None:
            return [_name(tree, now), *self._row(tree, now)]
        return [cell(tree, now) for cell in self._cells]


def _name(tree: Tree, now: float) -> str:
    name: str = tree["metadata"].get("name", "")
    return name


def _description(column: Column) -> str:
    known = {CREATED: CREATED_DESCRIPTION, NAME: NAME_DESCRIPTION}.get(column.json_path)
    return known or (f"The value at {column.json_path}." if column.json_path else "")


def _definition(column: Column) -> Tree:
    return {
        "name": column.name,
        "type": "string" if column.type == "age" else column.type,
        "format": column.format,
        "description": column.description or _description(column),
        "priority": column.priority,
    }


GROUP_PRIORITY, VERSION_PRIORITY = 1000, 100
"""The priorities of what is served here: those that Kubernetes gives to CustomResourceDefinitions."""


class CatalogError(ValueError):
    """Two entries of a catalog have the same name."""


class VersionDocuments(Protocol):
    """The discovery and OpenAPI documents of a group and version. Immutable: a changed one is another entry."""

    def discovery(self) -> dict[str, Any]:
        """Its part of aggregated discovery: an APIVersionDiscovery."""
        ...

    def openapi_hash(self) -> str:
        """The hash of its OpenAPI v3 document, the answer to ``/openapi/v3/apis/{group}/{version}``."""
        ...

    def openapi_v2(self) -> bytes:
        """What of its OpenAPI v2 document is about the version, as ``openapi.elsewhere`` takes it; empty without."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Proxied:
    """A group and version that another server serves.

    `answer` executes every request below ``/apis/{group}/{version}``, and those for its OpenAPI v3 document. Groups and
    versions with a higher priority come first in discovery. Source: APIService of ``apiregistration.k8s.io``.
    """

    group: str
    version: str
    answer: Callable[[RequestState], Awaitable[Response]]
    documents: VersionDocuments
    group_priority: int = GROUP_PRIORITY
    version_priority: int = VERSION_PRIORITY


CatalogItem = Served | Proxied


class CatalogChange(NamedTuple):
    """How a catalog differs from the one before. `put` are new or changed, `removed` are no longer served."""

    put: tuple[Served, ...]
    removed: tuple[GroupResource, ...]


@dataclass(frozen=True, slots=True)
class Catalog:
    """The groups by name, in the order in which they were listed. `generation` grows with every catalog of a server."""

    generation: int
    groups: Mapping[str, CatalogGroup]

    @classmethod
    def of(cls, entries: Iterable[CatalogItem], generation: int = 1) -> Catalog:
        """A catalog of these entries. Raises CatalogError if two have the same name or kind in one group."""
        by_group: dict[str, list[CatalogItem]] = {}
        for entry in entries:
            by_group.setdefault(_group_of(entry), []).append(entry)
        return cls(generation, {name: CatalogGroup(name, found) for name, found in by_group.items()})

    def changed(self, put: Iterable[CatalogItem] = (), remove: Iterable[GroupResource | GroupVersion] = ()) -> Catalog:
        """The next catalog: with `put`, in place of what has the same name, and without `remove`.

        A `GroupResource` names a resource, a `GroupVersion` one that is proxied. Names that aren't there are ignored.
        Raises CatalogError.
        """
        new: dict[str, list[CatalogItem]] = {}
        gone: dict[str, list[str]] = {}
        for entry in put:
            new.setdefault(_group_of(entry), []).append(entry)
        for key in remove:
            gone.setdefault(key.group, []).append(_key_of(key))
        groups = dict(self.groups)
        for name in {**new, **gone}:
            group = groups.get(name) or CatalogGroup(name)
            groups[name] = group.changed(new.get(name, ()), gone.get(name, ()))
            if not (groups[name].resources or groups[name].proxied):
                del groups[name]
        return Catalog(self.generation + 1, groups)

    def sharing(self, before: Catalog) -> Catalog:
        """The same, with the groups of `before` that have the same entries."""
        groups = {name: group.sharing(before.groups.get(name)) for name, group in self.groups.items()}
        return Catalog(self.generation, groups)

    def since(self, before: Catalog) -> CatalogChange:
        """What is different; groups that both share aren't looked into."""
        put: list[Served] = []
        removed: list[GroupResource] = []
        for name, group in self.groups.items():
            known = before.groups.get(name)
            if group is not known:
                old = known.resources if known is not None else {}
                put += [served for plural, served in group.resources.items() if old.get(plural) is not served]
                removed += [GroupResource(name, plural) for plural in old if plural not in group.resources]
        for name, group in before.groups.items():
            if name not in self.groups:
                removed += [GroupResource(name, plural) for plural in group.resources]
        return CatalogChange(tuple(put), tuple(removed))

    @property
    def entries(self) -> tuple[CatalogItem, ...]:
        """Everything that is served, group by group."""
        return tuple(entry for group in self.groups.values() for entry in group.entries)

    @property
    def resources(self) -> tuple[Served, ...]:
        """Every resource that is served here."""
        return tuple(served for group in self.groups.values() for served in group.resources.values())

    def in_order(self) -> list[CatalogGroup]:
        """The groups with a served version, in the order of discovery."""
        served = [group for group in self.groups.values() if group.versions]
        return sorted(served, key=lambda group: -group.priority)

    def find(self, group: str, version: str, resource: str) -> CatalogEntry | None:
        """The entry of a resource, or None."""
        found = self.groups.get(group)
        return found.find(version, resource) if found is not None else None

    def group(self, name: str) -> CatalogGroup | None:
        """A group with a served version, or None."""
        found = self.groups.get(name)
        return found if found is not None and found.versions else None

    def is_custom(self, name: str) -> bool:
        """Whether a group beside Kubernetes' own has nothing but custom resources."""
        group = self.groups.get(name)
        if group is None or self.group("") is None or group.proxied:
            return False
        return not any(served.definition.typed for served in group.resources.values())

    def serves(self, group: str, version: str) -> bool:
        """Whether this group and version is served."""
        found = self.groups.get(group)
        return found is not None and version in found.versions


class CatalogGroup:
    """An API group: its resources by plural, and its proxied versions by name. Immutable.

    `versions` are the names of the served versions, preferred first.
    """

    __slots__ = ("__weakref__", "_by_version", "_plurals", "_versions", "name", "priority", "proxied", "resources")

    def __init__(self, name: str, entries: Iterable[CatalogItem] = ()) -> None:
        self.name = name
        self.resources: dict[str, Served] = {}
        self.proxied: dict[str, Proxied] = {}
        self._plurals: dict[str, str] = {}
        self._by_version: dict[str, dict[str, CatalogEntry]] | None = None
        self._versions: tuple[str, ...] | None = None
        self._add(entries)

    def changed(self, put: Iterable[CatalogItem], remove: Iterable[str]) -> CatalogGroup:
        """The next group: with `put`, and without what has the keys `remove`. Raises CatalogError."""
        added = CatalogGroup(self.name, put)
        made = CatalogGroup(self.name)
        made.resources, made.proxied, made._plurals = dict(self.resources), dict(self.proxied), dict(self._plurals)
        for key in (*remove, *added.resources, *map(_proxied_key, added.proxied)):
            made._remove(key)
        made._add(added.entries)
        made._by_version = made._indexed(self, {*remove, *added.resources})
        return made

    def _remove(self, key: str) -> None:
        if key.startswith("/"):
            self.proxied.pop(key.removeprefix("/"), None)
        served = self.resources.pop(key, None)
        if served is not None:
            del self._plurals[served.definition.names.kind]

    def _add(self, entries: Iterable[CatalogItem]) -> None:
        for entry in entries:
            if isinstance(entry, Proxied):
                if entry.version in self.proxied:
                    raise CatalogError(f"{GroupVersion(self.name, entry.version)} is proxied twice")
                self.proxied[entry.version] = entry
                continue
            names = entry.definition.names
            if names.plural in self.resources:
                resource = GroupResource(self.name, names.plural)
                raise CatalogError(f"the resource {resource} is served twice: give one another plural")
            if names.kind in self._plurals:
                kind = GroupKind(self.name, names.kind)
                raise CatalogError(f"the kind {kind} is served twice: give one another kind")
            self.resources[names.plural] = entry
            self._plurals[names.kind] = names.plural
        built_in = BUILT_IN_GROUPS.get(self.name)
        priority = built_in.priority if built_in is not None else GROUP_PRIORITY
        own = [priority] if self.resources or not self.proxied else []
        self.priority: int = max(own + [proxied.group_priority for proxied in self.proxied.values()])
        self._check_versions()

    def _check_versions(self) -> None:
        for version in self.proxied:
            for served in self.resources.values():
                if any(
                    served_version.name == version and served_version.served
                    for served_version in served.definition.versions
                ):
                    named = f"{GroupVersion(self.name, version)}"
                    raise CatalogError(f"{named} is proxied, and {served.definition.group_resource} is served in it")

    @property
    def entries(self) -> Iterator[CatalogItem]:
        yield from self.resources.values()
        yield from self.proxied.values()

    def sharing(self, before: CatalogGroup | None) -> CatalogGroup:
        """`before` if it has the same entries; else this group, with its entries of unchanged resources.

        Makes the entries of all others, which takes some milliseconds for a thousand.
        """
        if before is None or before is self:
            self._index()
            return self
        if _same(self.resources, before.resources) and _same(self.proxied, before.proxied):
            return before
        known = before.resources
        changed = [plural for plural, served in self.resources.items() if known.get(plural) is not served]
        changed += [plural for plural in known if plural not in self.resources]
        self._by_version = self._indexed(before, changed)
        return self

    @property
    def versions(self) -> tuple[str, ...]:
        if self._versions is None:
            ranks = {version: VERSION_PRIORITY for version, entries in self._index().items() if entries}
            ranks.update((version, proxied.version_priority) for version, proxied in self.proxied.items())
            self._versions = tuple(sorted(ranks, key=lambda name: (-ranks[name], version_priority(name))))
        return self._versions

    def find(self, version: str, resource: str) -> CatalogEntry | None:
        """The entry of a resource, or None."""
        entries = self._index().get(version)
        return entries.get(resource) if entries is not None else None

    def of_version(self, version: str) -> list[CatalogEntry]:
        """The entries of a version, sorted by the resource's name; none for one that is proxied."""
        entries = self._index().get(version, {})
        return [entries[plural] for plural in sorted(entries)]

    def of_kind(self, version: str, kind: str) -> CatalogEntry | None:
        """The entry of a version that has a kind; None for one that is proxied."""
        return next((entry for entry in self._index().get(version, {}).values() if entry.gvk.kind == kind), None)

    def group_version(self, version: str) -> str:
        return str(GroupVersion(self.name, version))

    def _index(self) -> dict[str, dict[str, CatalogEntry]]:
        if self._by_version is None:
            self._by_version = self._indexed(None, self.resources)
        return self._by_version

    def _indexed(self, before: CatalogGroup | None, changed: Iterable[str]) -> dict[str, dict[str, CatalogEntry]]:
        """The entries by version and plural: those of `before`, and new ones of the `changed` resources."""
        index = {} if before is None else {version: dict(entries) for version, entries in before._index().items()}
        for plural in changed:
            for entries in index.values():
                entries.pop(plural, None)
            served = self.resources.get(plural)
            for version in served.definition.served_versions() if served is not None else ():
                index.setdefault(version.name, {})[plural] = CatalogEntry(self.resources[plural], version)
        return index

    def __repr__(self) -> str:
        return f"CatalogGroup({self.name})"


def _same(some: Mapping[str, object], others: Mapping[str, object]) -> bool:
    return len(some) == len(others) and all(others.get(key) is value for key, value in some.items())


def _group_of(entry: CatalogItem) -> str:
    return entry.group if isinstance(entry, Proxied) else entry.definition.group


def _key_of(name: GroupResource | GroupVersion) -> str:
    """The name of an entry in its group."""
    return name.resource if isinstance(name, GroupResource) else _proxied_key(name.version)


def _proxied_key(version: str) -> str:
    """The name of a proxied version in its group, which no plural can be."""
    return f"/{version}"


class CatalogEntry:
    """One version of one resource, with everything that is computed once for its requests.

    `subresources` are those of this version by name, with their verbs. ``status`` is among them.
    """

    __slots__ = (
        "__weakref__",
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
            self._columns = TableColumns(self.version, self.served.hooks.rows.get(self.version.name))
        return self._columns

    @property
    def merge_schema(self) -> MergeSchema:
        """The schema for strategic merge patches. Computed on first use."""
        if self._merge_schema is None:
            self._merge_schema = compile_schema(self.version.schema)
        return self._merge_schema

    @property
    def protobuf(self) -> Message | None:
        """Its protobuf message; None for one without. Computed on first use."""
        if not self._protobuf:
            schema = self.version.schema
            typed = self.definition.typed
            self._protobuf.append(message_for(self.gvk, schema) if typed else message_of(schema, self.gvk.kind))
        return self._protobuf[0]

    def sub_messages(self, name: str) -> tuple[Message | None, Message | None]:
        """The protobuf messages of a user's subresource, body and answer; None for one without."""
        found = self._sub_messages.get(name)
        if found is None:
            sub = self.subresources[name]
            request, response = (
                message_for(sub.kind, schema) if schema else None
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
