"""Trees of foreign types: renaming of fields, the values their code normalized, places of their errors.

A `Shape`'s schema has private keys beyond what is published:

- ``x-oarlock-name``: the type's own name of a field, where that isn't the name on the wire.
- ``x-oarlock-as-json``: free JSON, which is kept as it was sent; nothing below is renamed.
- ``x-oarlock-kept``: the value is kept as it was sent, because the type doesn't write what it read (a secret).
- ``x-oarlock-choice``: a union of several types; their errors name the one that was tried.

Pure. Must not know: the libraries of such types. See also: `foreign`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from oarlock.schema.definition import Schema
from oarlock.schema.types.folding import same
from oarlock.schema.types.markers import AS_JSON
from oarlock.schema.validation.findings import MapKey, Where

OWN_NAME = "x-oarlock-name"
KEPT = "x-oarlock-kept"
CHOICE = "x-oarlock-choice"

Rename = Callable[[Any], Any]

_ABSENT: Any = object()


def compile_renaming(schema: Schema, *, to_wire: bool) -> Rename | None:
    """A function that renames the fields of a tree, in a copy, from the type's own names to those on the wire or back.

    None when all names are the same.
    """
    if schema.get(AS_JSON):
        return None
    names: dict[str, str] = {}
    children: dict[str, Rename] = {}
    for wire, child in schema.get("properties", {}).items():
        own = child.get(OWN_NAME, wire)
        before, after = (own, wire) if to_wire else (wire, own)
        if before != after:
            names[before] = after
        rename = compile_renaming(child, to_wire=to_wire)
        if rename is not None:
            children[before] = rename
    items = _renaming_of(schema.get("items"), to_wire)
    values = _renaming_of(schema.get("additionalProperties"), to_wire)
    if items is not None:
        return lambda tree: [items(item) for item in tree] if type(tree) is list else tree
    if not names and not children and values is None:
        return None

    def rename_object(tree: Any) -> Any:
        if type(tree) is not dict:
            return tree
        renamed = {}
        for key, value in tree.items():
            inner = children.get(key, values)
            renamed[names.get(key, key)] = value if inner is None else inner(value)
        return renamed

    return rename_object


def _renaming_of(schema: Any, to_wire: bool) -> Rename | None:
    return compile_renaming(schema, to_wire=to_wire) if isinstance(schema, dict) else None


def written_back(tree: Any, normal: Any, schema: Schema) -> Any:
    """`tree` with the type's normalized values. `normal` is the object that was read from `tree`, written again.

    Fields unknown to the type stay, and so do other spellings of the same value. What is empty or absent in
    `normal` isn't added. The same tree when nothing changes.
    """
    if _is_kept(schema):
        return tree
    if type(tree) is dict and type(normal) is dict:
        return _object_back(tree, normal, schema)
    if type(tree) is list and type(normal) is list:
        return _list_back(tree, normal, schema)
    return tree if _means_the_same(tree, normal, schema) else normal


def _is_kept(schema: Schema) -> bool:
    return AS_JSON in schema or KEPT in schema


def _object_back(tree: dict[str, Any], normal: dict[str, Any], schema: Schema) -> dict[str, Any]:
    properties: Schema = schema.get("properties", {})
    rest: Any = schema.get("additionalProperties")
    result: dict[str, Any] = {}
    for key, value in tree.items():
        child = properties.get(key, rest)
        if not isinstance(child, dict):
            result[key] = value
        elif key in normal:
            result[key] = written_back(value, normal[key], child)
        elif _is_kept(child) or value is None or value in ([], {}):
            result[key] = value
    for key, value in normal.items():
        if key not in tree and isinstance(properties.get(key, rest), dict) and value not in (None, [], {}):
            result[key] = value
    unchanged = len(result) == len(tree) and all(value is tree.get(key, _ABSENT) for key, value in result.items())
    return tree if unchanged else result


def _list_back(tree: list[Any], normal: list[Any], schema: Schema) -> list[Any]:
    items: Schema = schema.get("items") or {}
    if schema.get("x-kubernetes-list-type") == "set":
        # keep the client's order; validation reports duplicates
        return tree if set(map(_text, tree)) == set(map(_text, normal)) else normal
    if len(tree) != len(normal):
        return normal
    result = [written_back(item, value, items) for item, value in zip(tree, normal, strict=True)]
    return tree if all(item is value for item, value in zip(tree, result, strict=True)) else result


def in_order(item: Any) -> tuple[str, Any]:
    """A sort key for the scalars of a set: each writer may write a set in another order."""
    return type(item).__name__, item


def _text(item: Any) -> bytes:
    return msgspec.json.encode(item, order="deterministic")


def _means_the_same(value: Any, normal: Any, schema: Schema) -> bool:
    if same(value, normal):
        return True
    if type(value) in (int, float) and type(normal) in (int, float):
        return bool(value == normal)
    if schema.get("format") != "date-time" or type(value) is not str or type(normal) is not str:
        return False
    try:
        return datetime.fromisoformat(value) == datetime.fromisoformat(normal)
    except (ValueError, TypeError):
        return False


def place_of(steps: Iterable[str | int], schema: Schema, tree: Any) -> Where:
    """The place in `tree` of an error of the type's own validation, given its steps.

    The steps use the type's field names, and may contain attempts: a branch of a union, the key of a dict.
    """
    where: Where = None
    here: Any = schema
    value = tree
    tried = False
    for step in steps:
        if here.get(CHOICE) and not tried:
            tried = True
            continue
        key, child = _child(step, here, value)
        if key is None:
            continue
        where, here, tried = (where, key), child, False
        value = _value_of(value, key)
    return where


def _child(step: str | int, schema: Schema, value: Any) -> tuple[str | int | None, Schema]:
    """The next step on the wire and its schema; None for a step that has no place in the tree."""
    if isinstance(step, int):
        items = schema.get("items")
        inside = isinstance(value, list) and (items is not None or AS_JSON in schema)
        return (step, items or _AS_JSON) if inside else (None, schema)
    for wire, child in schema.get("properties", {}).items():
        if child.get(OWN_NAME, wire) == step:
            return wire, child
    values = schema.get("additionalProperties")
    if isinstance(value, dict) and step in value:
        if isinstance(values, dict):
            return MapKey(step), values
        if "properties" in schema or AS_JSON in schema or "x-kubernetes-preserve-unknown-fields" in schema:
            return step, _AS_JSON
    return None, schema


_AS_JSON: Schema = {AS_JSON: True}


def _value_of(tree: Any, step: str | int) -> Any:
    if isinstance(tree, dict):
        return tree.get(step)
    return tree[step] if isinstance(tree, list) and isinstance(step, int) and step < len(tree) else None


_STEP = re.compile(r"\[([^\]]*)\]|[^.\[\]]+")


def value_at(tree: Any, path: str) -> Any:
    """The value in a tree at the path of a field error; None when there is none."""
    for step in _STEP.finditer(path):
        key = step[1] if step[1] is not None else step[0]
        tree = _value_of(tree, int(key) if isinstance(tree, list) and key.isdecimal() else key)
    return tree
