"""Duplicate fields of JSON objects: their paths, and the tree with duplicates merged.

The slow path of `json.duplicates`: runs only when duplicates can't be ruled out. See also: `json`.
Source: sigs.k8s.io/json's strict errors; Go's ``encoding/json``, which decodes a second object into the first.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NamedTuple, TypeAlias

from oarlock.codec.errors import DecodeError
from oarlock.meta.go.gotext import quote

MAX_FOUND = 100
"""How many paths are reported at most."""

_MAX_PATH = 1024
"""Characters of a path that are shown."""


class _Pairs(list[tuple[str, Any]]):
    """An object as a list of pairs, including duplicates."""


_Path: TypeAlias = "tuple[_Path, str | int] | None"
"""The path of the parent and the last step; made a text only for what is reported."""


def find(data: bytes) -> list[str]:
    """The paths of duplicate fields in the order of the text, each once.

    Raises DecodeError when `data` can't be decoded.
    """
    duplicates: dict[str, None] = {}
    _walk(_read(data), None, duplicates)
    return list(duplicates)


def in_order(data: bytes, unknown: Collection[str]) -> list[str]:
    """The strict decoding errors of an object as Go tells them: in the order of the text, each once.

    `unknown` are the paths of fields that are unknown. What is duplicate inside of one isn't reported.
    """
    errors: dict[str, None] = {}
    paths = frozenset(unknown)
    last_steps = frozenset(path.rpartition(".")[2] for path in paths)
    todo: list[tuple[Any, _Path]] = [(_read(data), None)]
    while todo and len(errors) < MAX_FOUND:
        value, path = todo.pop()
        if type(value) is _FieldGiven:
            key, inner = value.pair
            if key.rpartition(".")[2] in last_steps and _rendered((path, key)) in paths:
                errors[f"unknown field {quote(_rendered((path, key)))}"] = None
                continue
            if value.again:
                errors[f"duplicate field {quote(_rendered((path, key)))}"] = None
            todo.append((inner, (path, key)))
        elif type(value) is _Pairs:
            todo.extend((child, path) for child in reversed(_fields(value)))
        elif type(value) is list:
            todo.extend((value[i], (path, i)) for i in reversed(range(len(value))))
    return list(errors)


class _FieldGiven(NamedTuple):
    """A field of an object; `again` if there was one of that name before."""

    pair: tuple[str, Any]
    again: bool


def _fields(pairs: _Pairs) -> list[_FieldGiven]:
    names: set[str] = set()
    fields = []
    for pair in pairs:
        fields.append(_FieldGiven(pair, pair[0] in names))
        names.add(pair[0])
    return fields


def merged(data: bytes) -> Any:
    """The tree in which an object that is given twice has the fields of both; of other values the last one counts.

    Raises DecodeError when `data` can't be decoded.
    """
    return _plain(_read(data))


def _read(data: bytes) -> Any:
    try:
        return json.loads(data, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise DecodeError(str(error)) from None


def _walk(value: Any, path: _Path, duplicates: dict[str, None]) -> None:
    if type(value) is _Pairs:
        names = set()
        for key, inner in value:
            if len(duplicates) >= MAX_FOUND:
                return
            if key in names:
                duplicates[_rendered((path, key))] = None
            names.add(key)
            if type(inner) is _Pairs or type(inner) is list:
                _walk(inner, (path, key), duplicates)
    elif type(value) is list:
        for i, inner in enumerate(value):
            if type(inner) is _Pairs or type(inner) is list:
                _walk(inner, (path, i), duplicates)


def _rendered(path: _Path) -> str:
    """``spec.list[0].field``. Long paths are cut."""
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = ""
    for step in reversed(steps):
        if len(text) > _MAX_PATH:
            break
        if type(step) is int:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else str(step)
    return text if len(text) <= _MAX_PATH else text[:_MAX_PATH] + "..."


def _plain(value: Any) -> Any:
    if type(value) is list:
        return [_plain(inner) for inner in value]
    if type(value) is not _Pairs:
        return value
    tree: dict[str, Any] = {}
    for key, inner in value:
        new = _plain(inner)
        tree[key] = _joined(tree[key], new) if key in tree else new
    return tree


def _joined(first: Any, second: Any) -> Any:
    if type(first) is not dict or type(second) is not dict:
        return second
    for key, value in second.items():
        first[key] = _joined(first[key], value) if key in first else value
    return first
