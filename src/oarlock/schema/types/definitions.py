"""Makes a `ResourceDefinition` from declared classes: one hub, its spokes, and the storage version.

Checks class keywords against the schema: paths of columns, scale and selectable fields must exist.
Must not know: hooks, collections. See also: `definition`.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec

from oarlock.meta.kinds import BUILT_IN_GROUPS
from oarlock.schema.cel.gate import computed
from oarlock.schema.definition import Column, Names, NestedType, ResourceDefinition, Schema, VersionDefinition
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.structural.defaults_check import default_mistakes
from oarlock.schema.types.declaring import (
    DuplicateError,
    FieldNameError,
    HintError,
    KeywordError,
    RuleError,
    did_you_mean,
)
from oarlock.schema.types.markers import IntOrStringMark, QuantityMark
from oarlock.schema.types.reflect import fields_of, take_apart
from oarlock.schema.types.resources import ITEMS, REQUIRED_STATUS, Declared, declared, version_name
from oarlock.schema.types.views import object_schema


class NestedTypes(Mapping[str, NestedType]):
    """Those of one class: ``.spec``, ``.spec.items[]``. Metadata isn't looked into."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __getitem__(self, path: str) -> NestedType:
        return self._found[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def _found(self) -> Mapping[str, NestedType]:
        return dict(_of_class(self._cls, "", ()))


def _of_class(cls: Any, path: str, inside: tuple[type, ...]) -> Iterator[tuple[str, NestedType]]:
    for field in fields_of(cls):
        if path or field.wire != "metadata":
            yield from _of_hint(field.hint, f"{path}.{field.wire}", (*inside, cls))


def _of_hint(hint: Any, path: str, inside: tuple[type, ...]) -> Iterator[tuple[str, NestedType]]:
    apart = take_apart(hint)
    base: Any = apart.base
    if any(isinstance(marker, IntOrStringMark | QuantityMark) for marker in apart.markers):
        return
    if isinstance(base, type) and issubclass(base, msgspec.Struct):
        if base not in inside:  # where a class may contain itself, the schema ends
            yield path, _type(base)
            yield from _of_class(base, path, inside)
        return
    arguments = typing.get_args(base)
    if typing.get_origin(base) in (list, dict) and arguments:
        yield from _of_hint(arguments[-1], f"{path}[]", inside)


def _type(cls: Any) -> NestedType:
    name = re.sub(r"[^A-Za-z0-9]", "", cls.__qualname__.rpartition("<locals>.")[2])
    fields = " ".join(field.wire for field in fields_of(cls))  # a function that makes classes gives all the same name
    return NestedType(
        name, f"{cls.__module__}.{cls.__qualname__}: {fields}", inspect.cleandoc(cls.__dict__.get("__doc__") or "")
    )


MOST_SELECTABLE = 16
"""Each is kept with every object in memory. A CustomResourceDefinition may have 8."""

_OF_ALL_VERSIONS = (
    "generation",
    "unconditional_update",
    "create_on_update",
    "delete_returns",
    "ttl_s",
    "name_rule",
    "gc_default",
    "finalizers_at",
    "cleanup_finalizer",
    "initializers",
    "rbac",
    "delete_collection",
)


def definition_of(
    hub: Any, spokes: Sequence[type] = (), stored_as: type | None = None, group: str | None = None
) -> ResourceDefinition:
    """The definition of a hub (or a `Foreign` type) and its spokes; `stored_as` is one of them, else the hub.

    `group` is the one to serve, by default the hub's: the versions of other groups are known, and not served in it.
    """
    declaration = declaration_of(hub)
    own = declaration.group if group is None else group
    versions: dict[str, VersionDefinition] = {}
    for cls in (hub, *spokes):
        name = version_name(declaration_of(cls), own)
        if name in versions:
            what = f"two classes declare version {name!r}"
            raise DuplicateError(f"{declaration.kind}.{declaration.group}", what, place=declaration_of(cls).place)
        version = _version(cls)
        if declaration_of(cls).group != own:
            version = replace(version, name=name, served=False, columns=(), selectable=())
        versions[name] = version
    facts = declaration.facts
    return ResourceDefinition(
        group=own,
        names=Names(
            plural=facts.get("plural") or plural_of(declaration.kind),
            kind=declaration.kind,
            singular=facts.get("singular", ""),
            short_names=tuple(facts.get("short_names", ())),
            categories=tuple(facts.get("categories", ())),
        ),
        scope=facts.get("scope", "Namespaced"),
        versions=tuple(versions.values()),
        hub=version_name(declaration, own),
        stored_as=version_name(declaration_of(stored_as or hub), own),
        **{key: facts[key] for key in _OF_ALL_VERSIONS if key in facts},  # type: ignore[literal-required]
    )


def declaration_of(what: Any) -> Declared:
    """What a declared class, or a `Foreign`, says of itself."""
    return what.declaration if isinstance(what, Foreign) else declared(what)


def plural_of(kind: str) -> str:
    """The plural as Kubernetes guesses it: ``Flunder`` → ``flunders``, ``Policy`` → ``policies``."""
    name = kind.lower()
    if name.endswith("s"):
        return name + "es"
    return name[:-1] + "ies" if name.endswith("y") else name + "s"


def _version(cls: Any) -> VersionDefinition:
    declaration = declaration_of(cls)
    facts = declaration.facts
    schema = cls.schema() if isinstance(cls, Foreign) else object_schema(cls)
    deprecated = facts.get("deprecated", False)
    version = VersionDefinition(
        name=declaration.version,
        schema=schema,
        served=facts.get("served", True),
        deprecated=bool(deprecated),
        deprecation_warning=_warning(declaration, deprecated),
        columns=tuple(facts.get("columns", ())),
        selectable=tuple(facts.get("selectable", ())),
        status=facts.get("status_subresource", False),
        scale=facts.get("scale"),
        nested=cls.shape.nested() if isinstance(cls, Foreign) else NestedTypes(cls),
    )
    if isinstance(cls, Foreign):
        _check_foreign(declaration, version)
    _check_paths(declaration, version)
    if declaration.facts.get("finalizers_at"):
        _at(declaration, "finalizers_at", declaration.facts["finalizers_at"], schema)
    return version


def _check_foreign(declaration: Declared, version: VersionDefinition) -> None:
    """The checks of a `Foreign` type that a declared class gets at import."""
    subject = f"{declaration.kind} {declaration.version}"
    schema, place = version.schema, declaration.place
    if "items" in schema["properties"]:
        raise FieldNameError(f"{subject}, field items", *ITEMS, place)
    if version.status and "status" in schema.get("required", ()):
        raise KeywordError(f"{subject}, field status", *REQUIRED_STATUS, place)
    for path, field in _fields(schema, ""):
        for why in default_mistakes(field, path):
            what = f"the default {field['default']!r} is refused by its own rules: {why}"
            raise HintError(f"{subject}, field {path}", what, place=place)


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """All nested fields, with their paths."""
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, field
        yield from _fields(field, here)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _fields(schema[key], f"{path}[]")


def _warning(declaration: Declared, deprecated: bool | str) -> str:
    if isinstance(deprecated, bool):
        return ""
    if deprecated.startswith("use "):
        return f"{declaration.gvk.api_version} {declaration.kind} is deprecated; {deprecated}"
    return deprecated


def _check_paths(declaration: Declared, version: VersionDefinition) -> None:
    place = declaration.place
    subject = f"{declaration.kind} {declaration.version}"
    properties = version.schema["properties"]
    if version.status and "status" not in properties:
        raise KeywordError(
            subject, "status_subresource=True without a status field", "add status: YourStatus | None = None", place
        )
    if len(version.selectable) > MOST_SELECTABLE:
        raise KeywordError(subject, f"{len(version.selectable)} selectable fields", f"at most {MOST_SELECTABLE}", place)
    for path in version.selectable:
        field_schema = _at(declaration, "selectable", path, version.schema)
        if field_schema is not None and field_schema.get("type") not in ("string", "integer", "boolean"):
            raise KeywordError(subject, f"selectable {path!r} isn't a string, integer or boolean", place=place)
    for column in version.columns:
        if column.expression:
            _check_expression(declaration, column, version.schema)
        else:
            _at(declaration, "column", column.json_path, version.schema)
    if version.scale is not None:
        for path in (
            version.scale.spec_replicas_path,
            version.scale.status_replicas_path,
            version.scale.label_selector_path,
        ):
            if path:
                _at(declaration, "scale", path, version.schema)


def _check_expression(declaration: Declared, column: Column, schema: Schema) -> None:
    subject = f"{declaration.kind} {declaration.version}, column {column.name}"
    if column.json_path:
        raise KeywordError(subject, "has a json_path and an expression", "say one of them", declaration.place)
    if declaration.group in BUILT_IN_GROUPS:
        return  # those of Kubernetes' kinds are known to be right: no start waits for the compiler
    try:
        computed(column.expression, schema)
    except ValueError as error:
        raise RuleError(subject, f"its expression can't be computed: {error}", place=declaration.place) from error


def _at(declaration: Declared, what: str, path: str, schema: Schema) -> Schema | None:
    """The schema at a simple JSON path; None when the schema doesn't specify it."""
    subject, place = f"{declaration.kind} {declaration.version}", declaration.place
    if not path.startswith("."):
        raise KeywordError(subject, f"{what} {path!r}", f"a JSON path from the object's root, such as '.{path}'", place)
    if not re.fullmatch(r"(\.[A-Za-z_][\w-]*)+", path):
        return None
    here: Any = schema
    for step in path[1:].split("."):
        properties = here.get("properties")
        if not properties or here.get("x-kubernetes-preserve-unknown-fields"):
            return None
        if step not in properties:
            raise KeywordError(
                subject, f"{what} {path!r} leads nowhere at {step!r}", did_you_mean(step, properties), place
            )
        here = properties[step]
    return here  # type: ignore[no-any-return]
