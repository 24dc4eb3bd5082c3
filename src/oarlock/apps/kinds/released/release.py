"""`Release`: the types of one Kubernetes release, as structural schemas.

A type that many kinds use is one dict in all of their schemas, so that thirty kinds take little more memory than the
file.
Must not know: which kinds are served. See also: `facts`, what the data doesn't say; ``schema.released``, where it is.
Source: the OpenAPI document of Kubernetes, as ``kubernetes-validate`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from oarlock.apps.kinds.declaration import KindDeclaration, SubresourceDeclaration
from oarlock.apps.kinds.released.facts import (
    FREE_TYPES,
    KEPT_EMPTY,
    OMITTED_ZEROS,
    SHOWN_NULL,
    TYPE_DEFAULTS,
    type_name,
)
from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.definition import Names, ResourceDefinition, Schema, Subresource, VersionDefinition
from oarlock.schema.released.published import read_types, release_files
from oarlock.schema.types.reflect import QUANTITY_PATTERN

HINT = "pods, deployments and Kubernetes' other workload kinds aren't in this checkout: pip install 'oarlock[kinds]'"
_META = "io.k8s.apimachinery.pkg."
_OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_QUANTITY = f"{_META}api.resource.Quantity"
_EITHER: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCALARS: Mapping[str, Schema] = {
    f"{_META}util.intstr.IntOrString": _EITHER,
    _QUANTITY: {**_EITHER, "pattern": QUANTITY_PATTERN, "x-oarlock-quantity": True},
    f"{_META}apis.meta.v1.Time": {"type": "string", "format": "date-time"},
    f"{_META}apis.meta.v1.MicroTime": {"type": "string", "format": "date-time", "x-oarlock-micro-time": True},
    f"{_META}apis.meta.v1.FieldsV1": _ANYTHING,
    f"{_META}runtime.RawExtension": _ANYTHING,
}
_THOUSANDTHS: Schema = {**_SCALARS[_QUANTITY], "x-oarlock-in-thousandths": True}
_ROUNDS = ("io.k8s.api.core.", "io.k8s.api.node.")
"""The groups whose amounts of resources have no smaller parts than thousandths: smaller ones are rounded up."""

_COPIED = (
    "description",
    "format",
    "enum",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
)


class NoReleases(Exception):
    """There is no data of that release. The message is one line that says what to do."""


class Release:
    """The types of one release. `version` is its minor version: ``1.37``. The file is read when it is made."""

    def __init__(self, version: str, file: Path) -> None:
        self.version = version
        self._data = read_types(file)
        self._types: dict[str, Any] = {}
        self._made: dict[str, Schema] = {}

    def has(self, name: str) -> bool:
        """Whether there is a type of this name, such as ``io.k8s.api.apps.v1.Deployment``."""
        return name in self._data

    def object_schema(self, name: str) -> Schema:
        """The schema of a kind, without what all kinds have: apiVersion, kind and metadata. KeyError if it isn't there.

        What is required is told to clients only: Go has no absent fields, so the rules of kinds say what lacks.
        """
        whole = self._tree(name)
        properties = {}
        for field, schema in whole.get("properties", {}).items():
            if field not in _OBJECT_FIELDS:
                properties[field] = made = self._field(name, field, schema)
                if field == "spec":
                    properties[field] = {**made, "default": {}}
        found: Schema = {"type": "object", "description": whole.get("description", ""), "properties": properties}
        required = [name for name in whole.get("required", ()) if name in properties]
        return {**found, "required": required} if required else found

    def schema(self, name: str) -> Schema:
        """The schema of a type. The same dict each time: it must not be changed. KeyError if it isn't there."""
        scalar = _SCALARS.get(name)
        if scalar is not None:
            return scalar
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._typed(name, self._tree(name))
        return made

    def _tree(self, name: str) -> Any:
        """A type as the data has it."""
        found = self._types.get(name)
        if found is None:
            found = self._types[name] = msgspec.json.decode(self._data[name])
        return found

    def _typed(self, name: str, tree: Mapping[str, Any]) -> Schema:
        if name in FREE_TYPES:
            return {"description": tree.get("description", ""), "x-kubernetes-preserve-unknown-fields": True}
        made = self._node(tree)
        properties = tree.get("properties")
        if properties:
            made["properties"] = {field: self._field(name, field, schema) for field, schema in properties.items()}
        if tree.get("required"):
            made["required"] = [*tree["required"]]
        return made

    def _field(self, owner: str, field: str, tree: Mapping[str, Any]) -> Schema:
        """The schema of a field, with its default, and whether the empty value means that it isn't there."""
        made = self._node(tree, owner)
        null = field in SHOWN_NULL.get(owner, ())
        optional = field not in self._tree(owner).get("required", ())
        empty = _can_be_left_out(made) and (null or (optional and (owner, field) not in KEPT_EMPTY))
        if empty or field in OMITTED_ZEROS.get(owner, ()):
            made = {**made, "x-oarlock-omit-empty": True}
        if null:
            return {**made, "x-oarlock-null-if-absent": True}
        default = TYPE_DEFAULTS.get(owner, {}).get(field)
        return made if default is None else {**made, "default": default}

    def _node(self, tree: Mapping[str, Any], owner: str = "") -> Schema:
        reference = tree.get("$ref")
        if reference is not None:
            made = self.schema(reference.rpartition("/")[2])
            copied = {key: tree[key] for key in _COPIED if key in tree}
            return {**made, **copied} if copied else made
        schema: Schema = {"type": _type_of(tree)} if "type" in tree else {}
        schema.update((key, tree[key]) for key in _COPIED if key in tree)
        if schema.get("enum") and None in schema["enum"]:
            schema["enum"] = [value for value in schema["enum"] if value is not None]
        for key in ("items", "additionalProperties"):
            if isinstance(tree.get(key), dict):
                schema[key] = self._node(tree[key])
        if (schema.get("additionalProperties") or {}).get("x-oarlock-quantity") and owner.startswith(_ROUNDS):
            schema["additionalProperties"] = _THOUSANDTHS
        return schema


def _type_of(tree: Mapping[str, Any]) -> str:
    """The type; the data allows null everywhere, which Kubernetes takes as absent."""
    kind = tree["type"]
    return str(kind if isinstance(kind, str) else kind[0])


def _can_be_left_out(schema: Schema) -> bool:
    """Whether an empty value is the same as none: texts, lists, maps. A zero or an empty object may say something."""
    kind = schema.get("type")
    return kind in ("string", "array") or (kind == "object" and "additionalProperties" in schema)


def installed() -> bool:
    """Whether the data is installed."""
    return next(release_files(), None) is not None


def newest_release(minor: str = "") -> Release:
    """The types of the newest release that is installed, or of one such as ``1.36``. Raises NoReleases."""
    files = dict(release_files())
    if not files:
        raise NoReleases(HINT)
    if minor:
        wanted = tuple(int(number) if number.isdecimal() else -1 for number in minor.split("."))
        if wanted not in files:
            known = ", ".join(f"{major}.{number}" for major, number in sorted(files))
            raise NoReleases(f"there is no Kubernetes {minor} but {known}: pip install -U 'oarlock[kinds]'")
    else:
        wanted = max(files)
    return Release(".".join(map(str, wanted)), files[wanted])


def released_definitions(release: Release, kinds: Iterable[KindDeclaration]) -> list[ResourceDefinition]:
    """A definition for each kind that the release has, in those of its versions that the release has."""
    made = []
    for kind in kinds:
        versions = [name for name in (kind.version, *kind.other_versions) if _has(release, kind, name)]
        if versions:
            made.append(_definition(release, kind, versions))
    return made


def _has(release: Release, kind: KindDeclaration, version: str) -> bool:
    return release.has(type_name(kind.group, version, kind.kind))


def _definition(release: Release, kind: KindDeclaration, versions: Sequence[str]) -> ResourceDefinition:
    return ResourceDefinition(
        group=kind.group,
        names=Names(kind.plural, kind.kind, short_names=kind.short_names, categories=kind.categories),
        scope="Namespaced" if kind.namespaced else "Cluster",
        versions=tuple(_version(release, kind, name) for name in versions),
        hub=versions[0],
        stored_as=versions[0],
        generation=kind.generation,
        unconditional_update=kind.unconditional_update,
        create_on_update=kind.create_on_update,
        delete_returns=kind.delete_returns,
        name_rule=kind.name_rule,
        gc_default=kind.gc_default,
        repeats_metadata_errors=True,
        released=release.version,
    )


def _version(release: Release, kind: KindDeclaration, name: str) -> VersionDefinition:
    return VersionDefinition(
        name,
        release.object_schema(type_name(kind.group, name, kind.kind)),
        deprecated=bool(kind.deprecation_warning),
        deprecation_warning=kind.deprecation_warning,
        columns=kind.columns,
        selectable=kind.selectable,
        status=kind.status,
        status_metadata=kind.status_metadata if kind.status else (),
        status_at_creation=kind.status_at_creation,
        scale=kind.scale,
        subresources=tuple(_subresource(release, kind, name, part) for part in kind.parts),
    )


def _subresource(release: Release, kind: KindDeclaration, version: str, part: SubresourceDeclaration) -> Subresource:
    served, body = GroupVersionKind(kind.group, version, part.kind or kind.kind), {}
    if part.body_kind:
        served = GroupVersionKind(*part.body_kind.split("/"))
        body = release.object_schema(type_name(served.group, served.version, served.kind))
    shared = bool(part.fields)  # the object itself may set them as well, where its checks let it
    return Subresource(
        part.name,
        part.verbs,
        served,
        request_schema=body,
        fields=part.fields,
        shared=shared,
        counts=part.counts,
        older=part.older,
        proxies=part.proxies,
        connects=part.connects,
        produces=part.produces,
        parameters=part.parameters,
    )
