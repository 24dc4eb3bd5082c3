"""What reference pages say of a kind: its fields in each version, and what changed between versions.

Must not know: HTML, Markdown. See also: `site`, `examples`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.registry.served import Served
from oarlock.schema.definition import Schema, VersionDefinition
from oarlock.schema.types.reflect import DECIMAL_KEY

RULES = "x-kubernetes-validations"
_HEAD = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field, by its path from the object: ``spec.extras[].name``. `constraints` are sentences without a full stop."""

    path: str
    type: str
    required: bool
    default: str
    constraints: Sequence[str]
    description: str

    @property
    def anchor(self) -> str:
        return "".join(char if char.isalnum() else "-" for char in self.path)


def fields_of_version(version: VersionDefinition) -> Sequence[FieldRow]:
    """All fields of an object, those that every object has left out."""
    properties = {name: inner for name, inner in version.schema.get("properties", {}).items() if name not in _HEAD}
    return [*_fields({**version.schema, "properties": properties}, "")]


def _fields(schema: Schema, path: str) -> Iterator[FieldRow]:
    required = schema.get("required") or ()
    for name, inner in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        must = name in required and "default" not in inner
        default = json.dumps(inner["default"], ensure_ascii=False) if "default" in inner else ""
        yield FieldRow(here, _type(inner), must, default, [*_constraints(inner)], _description(inner))
        yield from _below(inner, here)


def _below(schema: Schema, path: str) -> Iterator[FieldRow]:
    for key in ("items", "additionalProperties"):
        inner = schema.get(key)
        if isinstance(inner, dict):
            yield from _below(inner, f"{path}[]")
    yield from _fields(schema, path)


def _description(schema: Schema) -> str:
    """A field's own text, else that of what is in it."""
    own = schema.get("description", "")
    inner = schema.get("items") or schema.get("additionalProperties")
    return own or (_description(inner) if isinstance(inner, dict) else "")


def _type(schema: Schema) -> str:
    kind = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in schema else "integer or string"
    if schema.get(DECIMAL_KEY):
        return "decimal"
    if kind == "array":
        return f"list of {_type(schema.get('items') or {})}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of string to {_type(schema['additionalProperties'])}"
    if schema.get("x-kubernetes-embedded-resource"):
        return "whole object"
    return f"{kind} ({schema['format']})" if schema.get("format") and kind else kind or "anything"


_BOUNDS = (
    ("multipleOf", "a multiple of {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("minProperties", "at least {} keys"),
    ("maxProperties", "at most {} keys"),
    ("pattern", "matches {}"),
)


def _constraints(schema: Schema) -> Iterator[str]:
    if "enum" in schema:
        yield "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    for key, words in (("minimum", ("at least", "more than")), ("maximum", ("at most", "less than"))):
        if key in schema:
            yield f"{words[bool(schema.get('exclusive' + key.capitalize()))]} {schema[key]}"
    skipped = schema.get("x-kubernetes-int-or-string") or schema.get(DECIMAL_KEY)
    for key, text in _BOUNDS:
        if key in schema and not (key == "pattern" and skipped):
            yield text.format(schema[key])
    if schema.get("nullable"):
        yield "may be null"
    if schema.get("x-kubernetes-list-type") == "set":
        yield "no item twice"
    if schema.get("x-kubernetes-list-type") == "map":
        yield "items are told apart by " + ", ".join(schema.get("x-kubernetes-list-map-keys") or ())
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        yield "other fields are kept"
    for rule in schema.get(RULES) or ():
        yield _rule(rule)
    for key, text in (("oneOf", "exactly one"), ("anyOf", "at least one"), ("allOf", "all")):
        if key in schema and not schema.get("x-kubernetes-int-or-string"):
            yield f"{text} of " + ", ".join(json.dumps(part, ensure_ascii=False) for part in schema[key])
    if "not" in schema:
        yield f"not {json.dumps(schema['not'], ensure_ascii=False)}"


def _rule(rule: Any) -> str:
    return f"{rule['rule']} ({rule['message']})" if rule.get("message") else str(rule["rule"])


def rules_of_version(version: VersionDefinition) -> Sequence[str]:
    """The rules of the whole object."""
    return [_rule(rule) for rule in version.schema.get(RULES) or ()]


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """What is different in `newer`: a sentence for each field."""

    older: str
    newer: str
    texts: Sequence[str]


def changes_of(served: Served) -> Sequence[VersionChanges]:
    """What changed from each served version to the next newer one."""
    pairs = pairwise(served.definition.served_versions()[::-1])
    return [VersionChanges(old.name, new.name, [*_changes(old, new)]) for old, new in pairs]


def _changes(old: VersionDefinition, new: VersionDefinition) -> Iterator[str]:
    before = {row.path: row for row in fields_of_version(old)}
    after = {row.path: row for row in fields_of_version(new)}
    for path in sorted({*before, *after}):
        earlier, later = before.get(path), after.get(path)
        if later is None:
            yield f"{path} is gone"
        elif earlier is None:
            yield f"{path} is new: {later.type}{', required' if later.required else ''}"
        else:
            yield from (f"{path} {text}" for text in _field_changes(earlier, later))


def _field_changes(old: FieldRow, new: FieldRow) -> Iterator[str]:
    if old.type != new.type:
        yield f"is {new.type}, it was {old.type}"
    if old.required != new.required:
        yield "is required" if new.required else "isn't required any more"
    if old.default != new.default:
        yield f"has the default {new.default or 'of nothing'}, it was {old.default or 'nothing'}"
    for text in new.constraints:
        if text not in old.constraints:
            yield f"has a constraint: {text}"
    for text in old.constraints:
        if text not in new.constraints:
            yield f"has a constraint no more: {text}"
