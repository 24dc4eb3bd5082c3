"""Hints and markers for the schema of one value, as the source of a class has them.

Each key of a schema becomes the hint or the marker that says it; `OpenAPI` says the others. Where a class or an alias
is needed, a `Declarations` makes it. Must not know: whole objects, versions.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Protocol

from oarlock.cli.modelling.layout import Bracketed, Expression, call, flat_of, literal, long_text, subscript, text_of
from oarlock.cli.modelling.names import singular
from oarlock.meta.dataclass import dataclass
from oarlock.schema.definition import Schema
from oarlock.schema.structural.merge_keys import MERGE_KEY, STRATEGY
from oarlock.schema.structural.patterns import CompiledPattern, PatternError
from oarlock.schema.types.reflect import QUANTITY_PATTERN

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
RULES = "x-kubernetes-validations"
LIST_TYPE, MAP_KEYS, MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"

_OF_FIELDS = ("default", "nullable")
"""What the field says that has the value."""


@dataclass(slots=True)
class ValueHint:
    """A hint without its markers, and the markers. `empty` is the literal of an empty list or dict, if it is one."""

    base: Expression
    markers: list[Expression] = field(default_factory=list)
    rest: Schema = field(default_factory=dict)
    empty: str = ""


class Declarations(Protocol):
    """Where classes and aliases are declared, and names imported."""

    def use(self, *names: str) -> None:
        """Import names of oarlock, typing or datetime."""

    def model(self, schema: Schema, place: tuple[str, str], path: str) -> tuple[str, bool]:
        """The class for an object with these properties, and whether its docstring is the schema's description."""

    def alias(self, hint: ValueHint, place: tuple[str, str]) -> str:
        """A name for a hint."""

    def tell(self, path: str, what: str) -> None:
        """What a class can't say."""


def is_model(schema: Schema) -> bool:
    """Whether a class is made for an object: it has fields, or nothing may be in it."""
    if schema.get("type") != "object":
        return False
    if schema.get("properties"):
        return True
    return not (schema.get("additionalProperties") or schema.get(PRESERVE) or schema.get(EMBEDDED))


def value_hint(schema: Schema, place: tuple[str, str], path: str, to: Declarations) -> ValueHint:
    """The hint for a value. `place` is the class it is in and what a class for it may be called."""
    rest = {key: value for key, value in schema.items() if key not in _OF_FIELDS}
    hint = _base(rest, place, path, to)
    hint.rest = rest
    _constraints(hint, schema, to)
    _structure(hint, schema, to)
    _rules(hint, to)
    text = rest.get("description")
    if text and _described(text):
        del rest["description"]
        to.use("Doc")
        hint.markers.append(long_text("Doc", text))
    return hint


def _described(text: str) -> bool:
    """Whether `Doc` can say exactly this."""
    return inspect.cleandoc(text) == text


def finished(hint: ValueHint, to: Declarations) -> Expression:
    """The whole hint, with `OpenAPI` for what no marker says."""
    if hint.rest:
        to.use("OpenAPI")
        hint.markers.append(call("OpenAPI", literal(hint.rest)))
        hint.rest = {}
    if not hint.markers:
        return hint.base
    to.use("Annotated")
    return subscript("Annotated", hint.base, *hint.markers)


def _base(rest: Schema, place: tuple[str, str], path: str, to: Declarations) -> ValueHint:
    if rest.get(INT_OR_STRING):
        return _int_or_string(rest, to)
    kind = rest.pop("type", None)
    if kind == "object":
        return _object(rest, place, path, to)
    if kind == "array":
        return _array(rest, place, path, to)
    if kind in ("string", "integer", "number", "boolean"):
        return _choices(rest, kind, to) or _scalar(rest, kind, to)
    if kind is not None:
        to.tell(path, f"type {kind!r} has no hint")
    to.use("JSON")
    hint = ValueHint("JSON")
    if rest.get(EMBEDDED):
        del rest[EMBEDDED]
        to.use("Embedded")
        hint.markers.append("Embedded")
    rest[PRESERVE] = None if not rest.get(PRESERVE) else rest[PRESERVE]
    if rest[PRESERVE]:
        del rest[PRESERVE]
    return hint


def _int_or_string(rest: Schema, to: Declarations) -> ValueHint:
    del rest[INT_OR_STRING]
    if rest.get("anyOf") == [{"type": "integer"}, {"type": "string"}]:
        del rest["anyOf"]
    else:
        rest.setdefault("anyOf", None)
    name = "IntOrString"
    if rest.get("pattern") == QUANTITY_PATTERN:
        name = "Quantity"
        del rest["pattern"]
    if "type" in rest:  # the hint says it, and the schema says both
        del rest["type"]
    to.use(name)
    return ValueHint(name)


def _choices(rest: Schema, kind: str, to: Declarations) -> ValueHint | None:
    values = rest.get("enum")
    expected = {"string": str, "integer": int}.get(kind)
    if not values or expected is None or any(type(value) is not expected for value in values):
        return None
    if len({*values}) < len(values):
        return None
    del rest["enum"]
    to.use("Literal")
    hint = ValueHint(Bracketed("Literal[", [literal(value) for value in values], "]"))
    _format(hint, rest, "", to)
    return hint


_PYTHON = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_TYPES = {("string", "date-time"): "datetime", ("string", "byte"): "bytes"}
_USUAL_FORMAT = {"integer": "int64", "number": "double"}


def _scalar(rest: Schema, kind: str, to: Declarations) -> ValueHint:
    name = _TYPES.get((kind, rest.get("format", "")))
    if name:
        del rest["format"]
        to.use(name)
        return ValueHint(name)
    hint = ValueHint(_PYTHON[kind])
    _format(hint, rest, _USUAL_FORMAT.get(kind, ""), to)
    return hint


def _format(hint: ValueHint, rest: Schema, usual: str, to: Declarations) -> None:
    named = rest.pop("format", "")
    if named != usual:
        to.use("Format")
        hint.markers.append(call("Format", text_of(named)))


def _object(rest: Schema, place: tuple[str, str], path: str, to: Declarations) -> ValueHint:
    values = rest.get("additionalProperties")
    whole = {**rest, "type": "object"}
    hint: ValueHint
    if is_model(whole):
        name, says_description = to.model(whole, place, path)
        for key in ("properties", "required"):
            rest.pop(key, None)
        if says_description:
            rest.pop("description", None)
        hint = ValueHint(name)
    elif isinstance(values, dict):
        del rest["additionalProperties"]
        hint = ValueHint(_inner("dict[str, {}]", values, (place[0], singular(place[1])), f"{path}[]", to), empty="{}")
    else:
        to.use("Any")
        hint = ValueHint("dict[str, Any]", empty="{}")
        if not rest.get(PRESERVE) and not rest.get(EMBEDDED):
            to.use("Preserve")
            hint.markers.append("Preserve")
            rest[PRESERVE] = None
    if rest.get("properties") == {}:
        del rest["properties"]
    if rest.get(EMBEDDED):
        del rest[EMBEDDED]
        to.use("Embedded")
        hint.markers.append("Embedded")
        if not rest.get(PRESERVE):
            rest[PRESERVE] = None
        else:
            del rest[PRESERVE]
    elif rest.get(PRESERVE):
        del rest[PRESERVE]
        to.use("Preserve")
        hint.markers.append("Preserve")
    return hint


def _array(rest: Schema, place: tuple[str, str], path: str, to: Declarations) -> ValueHint:
    items = rest.pop("items", None)
    if not isinstance(items, dict):
        to.tell(path, "a list whose items have no schema: they are free JSON")
        items = {PRESERVE: True}
    return ValueHint(_inner("list[{}]", items, (place[0], singular(place[1])), f"{path}[]", to), empty="[]")


def _inner(outer: str, schema: Schema, place: tuple[str, str], path: str, to: Declarations) -> str:
    """The hint of a list or a dict, with an alias for what is in it if that isn't a name alone."""
    hint = value_hint(schema, place, path, to)
    if "default" in schema:
        hint.rest["default"] = schema["default"]
    if schema.get("nullable") is False:
        hint.rest["nullable"] = False
    named = to.alias(hint, place) if hint.markers or hint.rest or isinstance(hint.base, Bracketed) else str(hint.base)
    return outer.format(f"{named} | None" if schema.get("nullable") else named)


_NUMBERS = ("integer", "number")
_CONSTRAINTS = (
    ("minLength", "MinLength", ("string",)),
    ("maxLength", "MaxLength", ("string",)),
    ("pattern", "Pattern", ("string",)),
    ("multipleOf", "MultipleOf", _NUMBERS),
    ("minItems", "MinItems", ("array",)),
    ("maxItems", "MaxItems", ("array",)),
    ("minProperties", "MinProperties", ("object",)),
    ("maxProperties", "MaxProperties", ("object",)),
)


def _constraints(hint: ValueHint, schema: Schema, to: Declarations) -> None:
    kind = schema.get("type", "string" if INT_OR_STRING in schema else "")
    if kind in _NUMBERS:
        _bound(hint, ("minimum", "exclusiveMinimum"), ("Ge", "Gt"), to)
        _bound(hint, ("maximum", "exclusiveMaximum"), ("Le", "Lt"), to)
    for key, marker, kinds in _CONSTRAINTS:
        value = hint.rest.get(key)
        if value is None or kind not in kinds or (key == "pattern" and not _is_pattern(value)):
            continue
        del hint.rest[key]
        to.use(marker)
        hint.markers.append(call(marker, literal(value)))


def _bound(hint: ValueHint, keys: tuple[str, str], markers: tuple[str, str], to: Declarations) -> None:
    bound, excluded = (hint.rest.get(key) for key in keys)
    if bound is None or excluded is False:
        return
    marker = markers[1] if excluded else markers[0]
    to.use(marker)
    hint.markers.append(call(marker, literal(bound)))
    for key in keys:
        hint.rest.pop(key, None)


def _is_pattern(value: str) -> bool:
    try:
        CompiledPattern(value)
    except PatternError:
        return False
    return True


def _structure(hint: ValueHint, schema: Schema, to: Declarations) -> None:
    rest = hint.rest
    said = schema.get("items")
    items: Schema = said if isinstance(said, dict) else {}
    listed, mapped = rest.get(LIST_TYPE), rest.get(MAP_TYPE)
    keys: Sequence[str] = rest.get(MAP_KEYS) or ()
    if listed == "atomic" and schema.get("type") == "array":
        _take(hint, "Atomic", (LIST_TYPE,), to)
    elif listed == "set" and items.get("type") in _PYTHON:
        _take(hint, "ListSet", (LIST_TYPE,), to)
    elif listed == "map" and keys and all(_is_map_key(items, key) for key in keys):
        _take(hint, call("ListMap", *map(text_of, keys)), (LIST_TYPE, MAP_KEYS), to)
    if mapped == "atomic" and schema.get("type") != "array":
        _take(hint, "Atomic", (MAP_TYPE,), to)
    strategies = (rest.pop(STRATEGY, "") or "").split(",")
    merge_key = rest.pop(MERGE_KEY, "")
    if "merge" in strategies and schema.get("type") == "array":
        _take(hint, call("PatchMerge", *([text_of(merge_key)] if merge_key else [])), (), to)
    if "replace" in strategies:
        _take(hint, "PatchReplace", (), to)
    if "retainKeys" in strategies:
        _take(hint, "RetainKeys", (), to)


def _is_map_key(items: Schema, key: str) -> bool:
    schema = items.get("properties", {}).get(key)
    if schema is None or schema.get("type") in ("object", "array"):
        return False
    return key in items.get("required", ()) or schema.get("default") is not None


def _take(hint: ValueHint, marker: Expression, keys: Sequence[str], to: Declarations) -> None:
    to.use(flat_of(marker).partition("(")[0])
    hint.markers.append(marker)
    for key in keys:
        del hint.rest[key]


_RULE = {
    "message": "message",
    "messageExpression": "message_expression",
    "reason": "reason",
    "fieldPath": "field_path",
    "optionalOldSelf": "optional_old_self",
}


def rule_calls(rules: Any) -> list[Expression] | None:
    """The rules as `Rule`s; None if one says what a `Rule` can't."""
    if not isinstance(rules, list) or not rules:
        return None
    if any(
        not rule.get("rule") or any(key not in _RULE or not rule[key] for key in {*rule} - {"rule"}) for rule in rules
    ):
        return None
    return [
        call("Rule", text_of(rule["rule"]), **{_RULE[key]: literal(rule[key]) for key in _RULE if key in rule})
        for rule in rules
    ]


def _rules(hint: ValueHint, to: Declarations) -> None:
    calls = rule_calls(hint.rest.get(RULES))
    if calls:
        to.use("Rule")
        del hint.rest[RULES]
        hint.markers += calls
