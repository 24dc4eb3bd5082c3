"""Makes a structural OpenAPI v3 schema from type hints.

Hints that a structural schema can't express are refused here, with their path and an alternative:
bare ``Any`` and ``dict``, unions, recursion. Descriptions are a class's own docstring and `Doc`.
Knows Structs, not `Resource`. Keeps no state. See also: `resources`, which puts schemas into a definition.
Source: CustomResourceDefinition structural schemas (KEP-1693 and the OpenAPI v3 subset they allow).
"""

from __future__ import annotations

import enum
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, ForwardRef, Literal, TypeVar, Union
from uuid import UUID

import msgspec

from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import copy_json
from oarlock.schema.definition import Rule, Schema
from oarlock.schema.structural import patterns
from oarlock.schema.structural.defaults_check import default_mistakes
from oarlock.schema.structural.merge_keys import MERGE_KEY, STRATEGY
from oarlock.schema.structural.proto_numbers import NUMBER, number_errors
from oarlock.schema.types.choices import ChoiceType, read_choice
from oarlock.schema.types.declaring import PYDANTIC_FIELD, HintError, foreign_advice, is_pydantic_field
from oarlock.schema.types.markers import (
    AS_JSON,
    AlsoRequired,
    AsJSON,
    Atomic,
    Embedded,
    IntOrStringMark,
    ListMap,
    ListSet,
    MicroTimeMark,
    Nullable,
    NullIfAbsent,
    OmitEmpty,
    OpenAPI,
    PatchMerge,
    PatchReplace,
    Preserve,
    Proto,
    QuantityMark,
    RetainKeys,
)

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

_INT_OR_STRING: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}

DECIMAL: Final = r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$"
DECIMAL_KEY: Final = "x-oarlock-decimal"
"""The key of a schema for a text that may come as a number."""

_AMOUNT = r"[0-9]+(\.[0-9]+)?"
DURATION: Final = (
    f"^[-+]?P(({_AMOUNT}Y)?({_AMOUNT}M)?({_AMOUNT}W)?({_AMOUNT}D)?(T({_AMOUNT}H)?({_AMOUNT}M)?({_AMOUNT}S)?)?)$"
)

TIME: Final = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[-+][0-9]{2}:?[0-9]{2})?$"

_SCALARS: dict[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    str: {"type": "string"},
    bytes: {"type": "string", "format": "byte"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "pattern": TIME},
    timedelta: {"type": "string", "pattern": DURATION},
    Decimal: {"type": "string", "pattern": DECIMAL, DECIMAL_KEY: True},
    UUID: {"type": "string", "format": "uuid"},
}

_CONSTRAINTS: tuple[tuple[str, str, str, bool], ...] = (
    # attribute of the marker, JSON type, key, whether the bound itself is excluded
    ("ge", "integer number", "minimum", False),
    ("gt", "integer number", "minimum", True),
    ("le", "integer number", "maximum", False),
    ("lt", "integer number", "maximum", True),
    ("multiple_of", "integer number", "multipleOf", False),
    ("min_length", "string", "minLength", False),
    ("max_length", "string", "maxLength", False),
    ("min_length", "array", "minItems", False),
    ("max_length", "array", "maxItems", False),
    ("min_length", "object", "minProperties", False),
    ("max_length", "object", "maxProperties", False),
    ("pattern", "string", "pattern", False),
    ("format", "string integer number", "format", False),
    ("min_items", "array", "minItems", False),
    ("max_items", "array", "maxItems", False),
    ("min_properties", "object", "minProperties", False),
    ("max_properties", "object", "maxProperties", False),
)


class Unresolved(Exception):
    """A hint refers to a name that isn't defined yet: `why`, in a field of a class (``Class.field``).

    `place` is the ``file:line`` of that class, if known.
    """

    def __init__(self, subject: str, why: str, place: str = "") -> None:
        super().__init__(subject, why)
        self.subject = subject
        self.why = why
        self.place = place


@dataclass(frozen=True, slots=True)
class Hint:
    """A parsed hint: the bare type, whether None is allowed, and the markers in ``Annotated``."""

    base: Any
    optional: bool
    markers: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class StructField:
    """A field of a Struct: its names, hint and default as written (`msgspec.NODEFAULT` for a required one)."""

    name: str
    wire: str
    hint: Any
    default: Any

    @property
    def required(self) -> bool:
        return self.default is msgspec.NODEFAULT


def take_apart(hint: Any) -> Hint:
    """Remove ``Annotated`` and ``| None`` from a hint, in any order."""
    markers: tuple[Any, ...] = ()
    optional = False
    while True:
        if typing.get_origin(hint) is typing.Annotated:
            markers += hint.__metadata__
            hint = hint.__origin__
        elif typing.get_origin(hint) in (Union, types.UnionType) and type(None) in typing.get_args(hint):
            rest = tuple(arg for arg in typing.get_args(hint) if arg is not type(None))
            optional = True
            hint = rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007  (made at run time)
        else:
            return Hint(hint, optional, markers)


def fields_of(cls: Any) -> list[StructField]:
    """The fields of a Struct in order. `Unresolved` if a hint refers to an undefined name."""
    defaults = getattr(cls, "__defaults__", {})
    try:
        infos = msgspec.structs.fields(cls)
    except NameError as error:
        raise Unresolved(_unresolved(cls), str(error), getattr(cls, "__place__", "")) from error
    return [StructField(f.name, f.encode_name, f.type, defaults.get(f.name, msgspec.NODEFAULT)) for f in infos]


def _unresolved(cls: Any) -> str:
    """``Class.field`` of the first field whose hint can't be resolved."""
    for base in cls.__mro__:
        for name, hint in vars(base).get("__annotations__", {}).items():
            try:
                typing.get_type_hints(
                    types.SimpleNamespace(__annotations__={name: hint}), vars(sys.modules[base.__module__])
                )
            except NameError:
                return f"{base.__name__}.{name}"
    return str(cls.__name__)


def check_fields(cls: Any) -> None:
    """Refuse hints without a schema as soon as the class exists. Unresolved hints are checked later."""
    try:
        schema = schema_of(cls)
    except Unresolved:
        return
    for f in fields_of(cls):
        for why in default_mistakes(schema["properties"][f.wire], f.wire):
            raise HintError(f"{cls.__name__}.{f.name}", f"the default {f.default!r} is refused by its own rules: {why}")


def schema_of(cls: Any) -> Schema:
    """The schema of a Struct as an object with properties. HintError with the path of a hint that has no schema."""
    return _model(cls, cls.__name__, ())


def rule_tree(rule: Rule) -> dict[str, Any]:
    """A CEL rule in the form of ``x-kubernetes-validations``."""
    tree = {
        "rule": rule.rule,
        "message": rule.message,
        "messageExpression": rule.message_expression,
        "reason": rule.reason,
        "fieldPath": rule.field_path,
        "optionalOldSelf": rule.optional_old_self,
    }
    return {key: value for key, value in tree.items() if value}


def _model(cls: Any, path: str, inside: tuple[type, ...]) -> Schema:
    if cls in inside:
        loop = " → ".join(c.__name__ for c in (*inside[inside.index(cls) :], cls))
        raise HintError(
            path,
            f"{cls.__name__} contains itself ({loop})",
            f"write Annotated[{cls.__name__!r}, Preserve] where it should end",
        )
    schema: Schema = {}
    described = _description(cls)
    if described:
        schema["description"] = described
    schema["type"] = "object"
    required = []
    properties: Schema = {}
    for f in fields_of(cls):
        properties[f.wire] = _field(f, f"{path}.{f.name}", (*inside, cls))
        if f.required or AlsoRequired in take_apart(f.hint).markers:
            required.append(f.wire)
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    for name, why in number_errors(schema, root=not inside):
        raise HintError(f"{path}.{name}", why)
    return schema


def _description(cls: Any) -> str:
    # a subclass without a docstring isn't described by its base's
    text = cls.__dict__.get("__doc__") or ""
    return inspect.cleandoc(text)


def _field(f: StructField, path: str, inside: tuple[type, ...]) -> Schema:
    hint = take_apart(f.hint)
    schema = _hinted(f.hint, path, inside)
    default = f.default
    if default is None and not hint.optional and hint.base is not Any:
        raise HintError(path, f"None doesn't fit {_shown(f.hint)}", "write X | None = None")
    if hint.optional and (Nullable in hint.markers or default is not None):
        schema["nullable"] = True
    if NullIfAbsent in hint.markers:
        if default is not None:
            raise HintError(path, "NullIfAbsent with another default", "write X | None = None")
        schema.update(nullable=True, default=None)
    if OmitEmpty in hint.markers:
        if f.required:
            raise HintError(path, "OmitEmpty without a default", "give it its zero value")
        schema["x-oarlock-omit-empty"] = True
    elif not f.required and default is not None and not (isinstance(default, list | dict) and not default):
        schema["default"] = _wire_default(default, f.hint, path)
    return schema


def _wire_default(default: Any, hint: Any, path: str) -> Any:
    tree = msgspec.to_builtins(default)
    try:
        msgspec.convert(tree, hint, dec_hook=read_choice)
    except msgspec.ValidationError as error:
        raise HintError(path, f"the default {default!r} doesn't fit the hint: {error}") from error
    return tree


def _item(hint: Any, path: str, inside: tuple[type, ...]) -> Schema:
    schema = _hinted(hint, path, inside)
    if take_apart(hint).optional:
        schema["nullable"] = True
    return schema


def _hinted(hint: Any, path: str, inside: tuple[type, ...]) -> Schema:
    apart = take_apart(hint)
    schema = _bare(apart, path, inside)
    for marker in apart.markers:
        _mark(schema, marker, apart, path)
    return schema


def _bare(hint: Hint, path: str, inside: tuple[type, ...]) -> Schema:
    """The schema of a type without its constraints."""
    base, markers = hint.base, hint.markers
    if isinstance(base, str | ForwardRef | TypeVar):
        raise Unresolved(path, f"{_shown(base)} isn't a type yet")
    if any(isinstance(m, IntOrStringMark) for m in markers):
        return dict(_INT_OR_STRING)
    if any(isinstance(m, QuantityMark) for m in markers):
        return {**_INT_OR_STRING, "pattern": QUANTITY_PATTERN}
    if base in _SCALARS:
        return dict(_SCALARS[base])
    if isinstance(base, ChoiceType):
        return _choice(base, path, inside)
    if _is_struct(base):
        if Preserve in markers and base in inside:
            return {"type": "object"}
        return _model(base, path, inside)
    for matches, make in _BUILDERS:
        if matches(base):
            return make(hint, path, inside)
    known = "use str, int, float, bool, bytes, datetime, Decimal, UUID, list, dict or a Model"
    raise HintError(path, f"{_shown(base)} has no schema", foreign_advice(base, known))


def _any(hint: Hint, path: str, inside: tuple[type, ...]) -> Schema:
    if Preserve in hint.markers or AsJSON in hint.markers:
        return {}
    raise HintError(path, "Any says nothing about the field", "write JSON if it may be anything")


def _dict(hint: Hint, path: str, inside: tuple[type, ...]) -> Schema:
    args = typing.get_args(hint.base)
    if not args:
        if Preserve in hint.markers or Embedded in hint.markers:
            return {"type": "object"}
        raise HintError(
            path, "dict says nothing about its values", "write dict[str, X], or JSON if they may be anything"
        )
    if take_apart(args[0]).base is not str:
        raise HintError(path, f"the keys of a JSON object are strings, not {_shown(args[0])}", "write dict[str, X]")
    if args[1] is Any and (Preserve in hint.markers or Embedded in hint.markers):
        return {"type": "object"}
    return {"type": "object", "additionalProperties": _item(args[1], f"{path}[]", inside)}


def _list(hint: Hint, path: str, inside: tuple[type, ...]) -> Schema:
    args = typing.get_args(hint.base)
    if not args:
        raise HintError(
            path, "list says nothing about its items", "write list[X], or list[JSON] if they may be anything"
        )
    return {"type": "array", "items": _item(args[0], f"{path}[]", inside)}


def _literal(hint: Hint, path: str, inside: tuple[type, ...]) -> Schema:
    return _enumeration(list(typing.get_args(hint.base)), path)


def _enum(hint: Hint, path: str, inside: tuple[type, ...]) -> Schema:
    return _enumeration([member.value for member in hint.base], path)


def _enumeration(values: list[Any], path: str) -> Schema:
    kinds = {type(value) for value in values}
    if kinds not in ({str}, {int}):
        raise HintError(path, f"the choices {values!r} aren't all strings or all integers")
    return {"type": "string" if kinds == {str} else "integer", "enum": values}


def _union(hint: Hint, path: str, inside: tuple[type, ...]) -> Schema:
    raise HintError(
        path,
        f"the union {_shown(hint.base)} has no structural schema",
        "write IntOrString, Models defined before with a field that is a Literal of its own in each, or JSON",
    )


def _choice(base: ChoiceType, path: str, inside: tuple[type, ...]) -> Schema:
    """An object with the fields of all choices; ``oneOf`` says which of them each requires, and which it hasn't."""
    schemas = {cls: _model(cls, path, inside) for cls in base.classes}
    properties: Schema = {}
    for cls, schema in schemas.items():
        for wire, field in schema.get("properties", {}).items():
            plain = {key: value for key, value in field.items() if key != "default"}
            if wire == base.tag:
                plain = {"type": "string", "enum": list(base.by_value)}
            elif properties.get(wire, plain) != plain:
                why = f"{cls.__name__}.{wire} is something else than in another choice"
                raise HintError(path, why, "give it another name, or write the same hint")
            properties[wire] = plain
    needed = {cls: {*schema.get("required", ()), base.tag} for cls, schema in schemas.items()}
    common = set.intersection(*needed.values())
    result: Schema = {"type": "object", "properties": properties, "required": sorted(common)}
    choices = [
        _one_of(base, cls, needed[cls] - common, {*properties} - {*schemas[cls]["properties"]}) for cls in schemas
    ]
    if any(len(choice) > 1 for choice in choices):
        result["oneOf"] = choices
    return result


def _one_of(base: ChoiceType, cls: Any, required: set[str], others: set[str]) -> Schema:
    """What is true of one choice: its tag, what it requires, and that it has no field of `others`."""
    values = [value for value, chosen in base.by_value.items() if chosen is cls]
    said: Schema = {"properties": {base.tag: {"enum": values}}}
    if required:
        said["required"] = sorted(required)
    if others:
        said["not"] = {"anyOf": [{"required": [name]} for name in sorted(others)]}
    return said


def _many(hint: Hint, path: str, inside: tuple[type, ...]) -> Schema:
    raise HintError(path, f"{_shown(hint.base)} isn't JSON", "write list[X], with Unique if none may appear twice")


_SchemaBuilder = Callable[[Hint, str, tuple[type, ...]], Schema]

_BUILDERS: tuple[tuple[Callable[[Any], bool], _SchemaBuilder], ...] = (
    (lambda t: t is Any, _any),
    (lambda t: t is dict or typing.get_origin(t) is dict, _dict),
    (lambda t: t is list or typing.get_origin(t) is list, _list),
    (lambda t: typing.get_origin(t) is Literal, _literal),
    (lambda t: isinstance(t, type) and issubclass(t, enum.Enum), _enum),
    (lambda t: typing.get_origin(t) in (Union, types.UnionType), _union),
    (lambda t: t in (set, frozenset, tuple) or typing.get_origin(t) in (set, frozenset, tuple), _many),
)


def _is_struct(base: Any) -> bool:
    return isinstance(base, type) and issubclass(base, msgspec.Struct)


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")


def _mark(schema: Schema, marker: Any, hint: Hint, path: str) -> None:
    """Add one marker of ``Annotated`` to the schema."""
    if isinstance(getattr(marker, "documentation", None), str):
        schema["description"] = inspect.cleandoc(marker.documentation)
    elif isinstance(marker, Rule):
        schema.setdefault("x-kubernetes-validations", []).append(rule_tree(marker))
    elif marker == Preserve:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    elif marker == AsJSON:
        if hint.base is not Any:
            raise HintError(path, "AsJSON is for fields of types that aren't Models", "write JSON")
        schema.update({"x-kubernetes-preserve-unknown-fields": True, AS_JSON: True})
    elif marker == Embedded:
        schema.update({"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True})
    elif marker == Atomic:
        schema["x-kubernetes-list-type" if schema.get("type") == "array" else "x-kubernetes-map-type"] = "atomic"
    elif marker == ListSet:
        _only(schema, "array", marker, path)
        if schema["items"].get("type") in ("object", "array", None):
            raise HintError(path, "only a list of scalars can be a set", 'write ListMap("name") for a list of models')
        schema["x-kubernetes-list-type"] = "set"
    elif isinstance(marker, MicroTimeMark):
        schema["x-oarlock-micro-time"] = True
    elif isinstance(marker, Proto):
        schema[NUMBER] = marker.number
    elif isinstance(marker, ListMap):
        _list_map(schema, marker, path)
    elif isinstance(marker, OpenAPI):
        add_keys(schema, marker.keys, path)
    elif isinstance(marker, PatchMerge):
        _patch_merge(schema, marker, path)
    elif marker in (PatchReplace, RetainKeys):
        if schema.get("type") not in ("object", "array"):
            raise HintError(path, f"{marker!r} belongs on a list, dict or model")
        _add_strategy(schema, "replace" if marker == PatchReplace else "retainKeys")
    else:
        _constrain(schema, marker, path)


_OF_HINTS = ("type", "properties", "items", NUMBER)
"""The keys of a schema that a hint says."""


def add_keys(schema: Schema, keys: Mapping[str, Any], path: str) -> None:
    """Add what `OpenAPI` says. HintError for what is said by the hint."""
    for key, value in keys.items():
        if key in _OF_HINTS or key.startswith("x-oarlock-"):
            raise HintError(path, f"OpenAPI can't say {key!r}", "the hint says it")
        if value is None:
            schema.pop(key, None)
        else:
            schema[key] = copy_json(value)


def _only(schema: Schema, kind: str, marker: Any, path: str) -> None:
    if schema.get("type") != kind:
        raise HintError(path, f"{marker!r} belongs on {'a list' if kind == 'array' else 'an ' + kind}")


def _list_map(schema: Schema, marker: ListMap, path: str) -> None:
    _only(schema, "array", marker, path)
    properties = schema["items"].get("properties", {})
    for key in marker.keys or ("",):
        key_schema = properties.get(key)
        if key_schema is None or key_schema.get("type") in ("object", "array"):
            raise HintError(
                path,
                f"ListMap needs wire names of scalar fields of its items, not {key!r}",
                "there are " + ", ".join(properties),
            )
        if key not in schema["items"].get("required", ()) and "default" not in key_schema:
            raise HintError(
                path, f"the key {key!r} may be absent from an item", "make the field required or give it a default"
            )
    schema["x-kubernetes-list-type"] = "map"
    schema["x-kubernetes-list-map-keys"] = list(marker.keys)


def _patch_merge(schema: Schema, marker: PatchMerge, path: str) -> None:
    _only(schema, "array", marker, path)
    items = schema["items"]
    models = items.get("type") not in ("string", "integer", "number", "boolean")
    key_schema = items.get("properties", {}).get(marker.key)
    if models and (key_schema is None or key_schema.get("type") in ("object", "array")):
        names = ", ".join(items.get("properties", {}))
        what = f"PatchMerge needs the wire name of a scalar field of the list's items, not {marker.key!r}"
        raise HintError(path, what, f"there are {names}" if names else "only lists of models and of scalars are merged")
    if not models and marker.key:
        raise HintError(path, f"scalars have no field {marker.key!r}", "write PatchMerge()")
    _add_strategy(schema, "merge")
    if marker.key:
        schema[MERGE_KEY] = marker.key


def _add_strategy(schema: Schema, strategy: str) -> None:
    before = schema.get(STRATEGY)
    schema[STRATEGY] = f"{before},{strategy}" if before else strategy


def _constrain(schema: Schema, marker: Any, path: str) -> None:
    kind = schema.get("type", "string" if "x-kubernetes-int-or-string" in schema else "")
    refused = ""
    for attribute, kinds, key, exclusive in _CONSTRAINTS:
        value = getattr(marker, attribute, None)
        if value is None or callable(value):
            continue
        if kind not in kinds.split():
            refused = attribute
            continue
        if key == "pattern":
            value = getattr(value, "pattern", value)
            _check_pattern(value, path)
        schema[key] = value
        if key == "format" and not value:
            del schema[key]
        if exclusive:
            schema["exclusiveMinimum" if key == "minimum" else "exclusiveMaximum"] = True
        return
    if is_pydantic_field(marker):
        raise HintError(path, "pydantic.Field is no marker here", PYDANTIC_FIELD)
    if refused:
        raise HintError(path, f"{marker!r} means nothing for {_article(kind)}")


def _article(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aio" else f"a {kind or 'value of any type'}"


def _check_pattern(pattern: str, path: str) -> None:
    try:
        patterns.CompiledPattern(pattern)
    except patterns.PatternError as error:
        raise HintError(path, f"the pattern {pattern!r} isn't an RE2 expression: {error}") from error
