"""Python source with the classes for CustomResourceDefinitions.

Objects with the same fields are one class, and a class is written before what uses it. What the schema of a version
says of the whole object becomes class keywords. See also: `values`, which makes the hints; `command`, which compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from oarlock.cli.modelling.layout import (
    WIDTH,
    Bracketed,
    Expression,
    call,
    docstring,
    flat_of,
    literal,
    statement,
    text_of,
)
from oarlock.cli.modelling.names import FieldNames, class_name, pascal
from oarlock.cli.modelling.values import RULES, ValueHint, finished, is_model, rule_calls, value_hint
from oarlock.schema.definition import Column, ResourceDefinition, Schema, VersionDefinition
from oarlock.schema.types.definitions import plural_of
from oarlock.schema.types.resources import ITEMS


class _Told(Protocol):
    def use(self, *names: str) -> None: ...
    def tell(self, path: str, what: str) -> None: ...


def version_keywords(
    version: VersionDefinition, schema: Schema, has_docstring: bool, path: str, to: _Told
) -> Iterator[Expression]:
    """The keywords, each as ``name=…``."""
    if version.status:
        if "status" in schema.get("properties", {}):
            yield "status_subresource=True"
        else:
            to.tell(path, "it has /status and no status: a class needs the field")
    yield from _scale(version, schema, path, to)
    selectable = [p for p in version.selectable if not _nowhere(p, schema, f"{path}, selectable field {p}", to)]
    if selectable:
        yield "selectable=", Bracketed("[", [text_of(p) for p in selectable], "]")
    columns = [c for c in version.columns if not _nowhere(c.json_path, schema, f"{path}, column {c.name}", to)]
    if columns:
        to.use("Column")
        yield "columns=", Bracketed("[", [_column(column) for column in columns], "]")
    if version.deprecated:
        yield f"deprecated={text_of(version.deprecation_warning) if version.deprecation_warning else True}"
    if not version.served:
        yield "served=False"
    rules = rule_calls(schema.get(RULES))
    if rules:
        to.use("Rule")
        yield "rules=", Bracketed("[", rules, "]")
    rest = _rest(schema, bool(rules), has_docstring)
    if rest:
        openapi = literal(rest)
        yield ("openapi=", openapi) if isinstance(openapi, Bracketed) else f"openapi={openapi}"


def _scale(version: VersionDefinition, schema: Schema, path: str, to: _Told) -> Iterator[Expression]:
    scale = version.scale
    if scale is None:
        return
    paths = (scale.spec_replicas_path, scale.status_replicas_path, *filter(None, [scale.label_selector_path]))
    lost = [p for p in paths if _nowhere(p, schema, f"{path}, scale {p}", to)]
    if lost:
        return
    to.use("Scale")
    yield "scale=", call("Scale", *map(text_of, paths))


def _column(column: Column) -> Bracketed:
    named: dict[str, Expression] = {}
    if column.type != "string":
        named["type"] = text_of(column.type)
    for key in ("format", "description"):
        if getattr(column, key):
            named[key] = text_of(getattr(column, key))
    if column.priority:
        named["priority"] = str(column.priority)
    return call("Column", text_of(column.name), text_of(column.json_path), **named)


def _nowhere(json_path: str, schema: Schema, path: str, to: _Told) -> bool:
    """Whether a path leads to no field, which is told."""
    if not json_path.startswith("."):
        to.tell(path, f"{json_path!r} is no path from the object's root")
        return True
    if not re.fullmatch(r"(\.[A-Za-z_][\w-]*)+", json_path):
        return False
    here: Any = schema
    steps = json_path[1:].split(".")
    if steps[0] == "metadata":
        return False
    for step in steps:
        properties = here.get("properties")
        if not properties or here.get("x-kubernetes-preserve-unknown-fields"):
            return False
        if step not in properties:
            to.tell(path, f"{json_path!r} leads nowhere at {step!r}")
            return True
        here = properties[step]
    return False


_SAID = ("type", "properties", "required")


def _rest(schema: Schema, rules_are_said: bool, has_docstring: bool) -> Schema:
    """What of the schema of a whole object neither fields nor other keywords say."""
    said = {*_SAID, *([RULES] if rules_are_said else []), *(["description"] if has_docstring else [])}
    rest = {key: value for key, value in schema.items() if key not in said}
    required = list(schema.get("required") or ())
    fields = {*schema.get("properties", {})} - {"apiVersion", "kind", "metadata"}
    if any(name not in fields for name in required):
        rest["required"] = required
    return rest


_OWN = """
JSON AlsoRequired Atomic Column Doc Embedded Format Ge Gt IntOrString Le ListMap ListSet Lt MaxItems MaxLength
MaxProperties MinItems MinLength MinProperties Model MultipleOf Name NullIfAbsent Nullable OpenAPI PatchMerge
PatchReplace Pattern Preserve Quantity Resource RetainKeys Rule Scale Spoke same_fields
"""

_MODULES = {
    "datetime": "datetime",
    **dict.fromkeys(("Annotated", "Any", "Literal", "Self"), "typing"),
    **dict.fromkeys(_OWN.split(), "oarlock"),
}
"""Where a name is imported from. No class that is made has one of these names."""

_HEAD = ("apiVersion", "kind", "metadata")
LONGEST_DEFAULT = 40
"""A default that takes more characters is said by `OpenAPI`."""


class ClassSource:
    """The source for some definitions; `told` are the lines about what it doesn't say."""

    def __init__(self, definitions: Sequence[ResourceDefinition], origin: str) -> None:
        self.told: list[str] = []
        self._origin = origin
        self._used: set[str] = set()
        self._made: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._blocks: list[list[str]] = []
        self._taken = {*_MODULES, "None", "True", "False"}
        self._texts: dict[str, set[str]] = {}
        hubs = [self._free(definition.names.kind) for definition in definitions]
        for definition in definitions:
            for version in definition.versions:
                self._collect(version.schema, whole=True)
        for definition, hub in zip(definitions, hubs, strict=True):
            self._kind(definition, hub)

    def __str__(self) -> str:
        head = [f'"""{self._origin}"""', "", *self._imports()]
        return "\n".join(head) + "".join("\n\n\n" + "\n".join(block) for block in self._blocks) + "\n"

    # what `values` asks for

    def use(self, *names: str) -> None:
        """Import names."""
        self._used.update(name for name in names if name in _MODULES)

    def tell(self, path: str, what: str) -> None:
        """Note what a class can't say."""
        self.told.append(f"{path}: {what}")

    def model(self, schema: Schema, place: tuple[str, str], path: str) -> tuple[str, bool]:
        """The class for an object with these properties, and whether its docstring is the schema's description."""
        key = _shape(schema)
        described = self._description(key)
        if key not in self._made:
            name = self._made[key] = self._free_inner(*place)
            self.use("Model")
            lines = [f"class {name}(Model):", *self._body(name, schema, described, path)]
            self._blocks.append(lines)
        return self._made[key], described is not None

    def alias(self, hint: ValueHint, place: tuple[str, str]) -> str:
        """A name for a hint."""
        expression = finished(hint, self)
        key = flat_of(expression)
        if key not in self._aliases:
            name = self._aliases[key] = self._free_inner(*place)
            self._blocks.append([*statement(f"{name} = ", expression)])
        return self._aliases[key]

    # names, descriptions

    def _free(self, kind: str) -> str:
        name = kind if kind not in self._taken else class_name(kind, kind + "Kind", self._taken)
        self._taken.add(name)
        return name

    def _free_inner(self, parent: str, name: str) -> str:
        free = class_name(parent, name, self._taken)
        self._taken.add(free)
        return free

    def _collect(self, schema: Schema, *, whole: bool = False) -> None:
        """Note the descriptions of all objects with the same fields."""
        if is_model(schema) and not whole:
            self._texts.setdefault(_shape(schema), set()).add(schema.get("description", ""))
        for name, inner in schema.get("properties", {}).items():
            if not (whole and name in _HEAD):
                self._collect(inner)
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                self._collect(schema[key])

    def _description(self, key: str) -> list[str] | None:
        """The docstring of a class: where it is used nothing else is said, and it can be said in a docstring."""
        texts = self._texts.get(key, {""})
        lines = docstring(next(iter(texts)), 1) if len(texts) == 1 else None
        return None if lines is None else [*lines]

    # classes

    def _kind(self, definition: ResourceDefinition, hub: str) -> None:
        stored = definition.version(definition.stored_as)
        for version in (stored, *(version for version in definition.versions if version is not stored)):
            name = hub if version is stored else self._free(definition.names.kind + pascal(version.name))
            self._version(definition, version, name, hub)

    def _version(self, definition: ResourceDefinition, version: VersionDefinition, name: str, hub: str) -> None:
        path = f"{definition.names.kind} {version.name}"
        bases: list[Expression] = ["Resource" if name == hub else f"Spoke[{hub}]"]
        self.use("Resource" if name == hub else "Spoke")
        if name == hub:
            bases += [f"group={text_of(definition.group)}"]
        bases += [f"version={text_of(version.name)}"]
        if name == hub:
            bases += self._names(definition, name)
        known = _without_items(version.schema, path, self)
        text = known.get("description", "")
        lines = docstring(text, 1)
        keywords = version_keywords(version, known, lines is not None, path, self)
        described = None if lines is None else [*lines]
        body = self._body(name, known, described, path, whole=version)
        stored = definition.version(definition.stored_as)
        if name != hub and version.schema != stored.schema:
            self.tell(
                path, f"conversion keeps the fields that {stored.name} has by the same names: see to_hub, from_hub"
            )
        if name != hub:
            body = [*([] if body == ["    pass"] else [*body, ""]), *self._conversion(hub)]
        self._blocks.append([*statement(f"class {name}", Bracketed("(", [*bases, *keywords], ")"), ":"), *body])

    def _names(self, definition: ResourceDefinition, cls: str) -> Iterator[Expression]:
        names = definition.names
        if cls != names.kind:
            yield f"kind={text_of(names.kind)}"
        if names.plural != plural_of(names.kind):
            yield f"plural={text_of(names.plural)}"
        if names.singular != names.kind.lower():
            yield f"singular={text_of(names.singular)}"
        if names.list_kind != names.kind + "List":
            self.tell(names.kind, f"its lists are called {names.kind}List, not {names.list_kind}")
        if definition.scope != "Namespaced":
            yield f"scope={text_of(definition.scope)}"
        for keyword, values in (("short_names", names.short_names), ("categories", names.categories)):
            if values:
                yield f"{keyword}=", Bracketed("[", [text_of(value) for value in values], "]")

    def _conversion(self, hub: str) -> Iterator[str]:
        self.use("Self", "same_fields")
        yield f"    def to_hub(self) -> {hub}:"
        yield f"        return same_fields(self, {hub})"
        yield ""
        yield "    @classmethod"
        yield f"    def from_hub(cls, hub: {hub}) -> Self:"
        yield "        return same_fields(hub, cls)"

    def _body(
        self, cls: str, schema: Schema, described: list[str] | None, path: str, whole: VersionDefinition | None = None
    ) -> list[str]:
        names = FieldNames(("metadata",) if whole else ())
        required = schema.get("required") or ()
        fields: list[str] = []
        for wire, inner in (schema.get("properties") or {}).items():
            if whole and wire in _HEAD:
                continue
            name, say = names.add(wire, whole_object=whole is not None)
            inner_name = (cls + pascal(wire)) if whole else pascal(wire)
            must = wire in required
            keep = not (whole and whole.status and wire == "status")
            made = _WrittenField(self, inner, (cls, inner_name), f"{path}.{wire}")
            if say:
                made.mark("Name", call("Name", text_of(wire)))
            fields += made.lines(name, wire, required=must, may_be_required=keep)
        if described and fields:
            return [*described, "", *fields]
        return described or fields or ["    pass"]

    def _imports(self) -> Iterator[str]:
        for module in ("datetime", "typing", "oarlock"):
            names = sorted(
                (name for name in self._used if _MODULES[name] == module),
                key=lambda name: (not name.isupper(), name[0].islower(), name),
            )
            if module == "oarlock" and len({_MODULES[name] for name in self._used}) > 1:
                yield ""
            if names:
                line = f"from {module} import {', '.join(names)}"
                yield from (
                    [line] if len(line) <= WIDTH else [f"from {module} import (", *(f"    {n}," for n in names), ")"]
                )


class _WrittenField:
    """A field of a class, as it is written."""

    def __init__(self, to: ClassSource, schema: Schema, place: tuple[str, str], path: str) -> None:
        self._to = to
        self._schema = schema
        self._path = path
        self._place = place
        self._hint = value_hint(schema, place, path, to)

    def mark(self, name: str, marker: Expression = "") -> None:
        self._to.use(name)
        self._hint.markers.append(marker or name)

    def lines(self, name: str, wire: str, *, required: bool, may_be_required: bool) -> list[str]:
        nullable = self._schema.get("nullable")
        if nullable is False:
            self._hint.rest["nullable"] = False
        value = self._value(required and may_be_required)
        if required and value:
            self.mark("AlsoRequired")
        may_be_none = nullable or value == "None"
        if value == "None" and nullable and "NullIfAbsent" not in self._hint.markers:
            self.mark("Nullable")
        if may_be_none and not (self._hint.base == "JSON" and not nullable):
            self._hint.base = self._optional()
        after = f" = {value}" if value else ""
        expression = finished(self._hint, self._to)
        if isinstance(expression, str) and len(f"    {name}: {expression}{after}") > WIDTH:
            self.mark("Name", call("Name", text_of(wire)))
            expression = finished(self._hint, self._to)
        return [*statement(f"{name}: ", expression, after, 1)]

    def _optional(self) -> str:
        base = self._hint.base
        named = base if isinstance(base, str) else self._to.alias(ValueHint(base), self._place)
        return f"{named} | None"

    def _value(self, required: bool) -> str:
        """The default in Python, empty for none."""
        if "default" not in self._schema:
            if required:
                return ""
            return self._hint.empty if self._hint.empty and not self._schema.get("nullable") else "None"
        default = self._schema["default"]
        if _is_literal(default, self._schema):
            value = flat_of(literal(default))
            if len(value) <= LONGEST_DEFAULT:
                return value
        if default is None:
            if self._schema.get("nullable"):
                self.mark("NullIfAbsent")
            else:
                self._to.tell(self._path, "the default null, which isn't allowed there")
            return "None"
        self._hint.rest["default"] = default
        return self._hint.empty or "None"


_PLAIN = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}


def _is_literal(default: Any, schema: Schema) -> bool:
    """Whether the default of a field in Python is the one that is published."""
    if schema.get("x-kubernetes-int-or-string"):
        return type(default) in (int, str)
    kind = schema.get("type", "")
    if kind in _PLAIN:
        return type(default) in _PLAIN[kind] and schema.get("format") not in ("date-time", "byte")
    inner = schema.get({"array": "items", "object": "additionalProperties"}.get(kind, ""))
    values = default.values() if isinstance(default, dict) else default
    if not values or not isinstance(inner, dict) or inner.get("type") not in _PLAIN:
        return False
    return isinstance(values, Iterable) and all(_is_literal(value, inner) for value in values)


def _shape(schema: Schema) -> str:
    """The same for objects that one class can be made for."""
    return json.dumps([schema.get("properties") or {}, sorted(schema.get("required") or ())], sort_keys=True)


def _without_items(schema: Schema, path: str, to: ClassSource) -> Schema:
    if "items" not in schema.get("properties", {}):
        return schema
    to.tell(f"{path}.items", ITEMS[0])
    return {**schema, "properties": {k: v for k, v in schema["properties"].items() if k != "items"}}
