"""Checks that a dict has the shape of a CustomResourceDefinition: required keys, and values of the right types.

The shape is a table, checked by one function. See also: `crd_rules`, which may then rely on it.
Source: apiextensions.k8s.io/v1 CustomResourceDefinition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import FieldError, NotSupported, Required, TypeInvalid
from oarlock.schema.validation.findings import json_type


@dataclass(frozen=True, slots=True)
class _Shape:
    """`kind` is a JSON type. Keys in `needed` are required, those in `known` optional; others are ignored."""

    kind: str
    needed: dict[str, _Shape] = field(default_factory=dict)
    known: dict[str, _Shape] = field(default_factory=dict)
    items: _Shape | None = None


_TEXT = _Shape("string")
_FLAG = _Shape("boolean")
_WHOLE = _Shape("integer")
_ANY_OBJECT = _Shape("object")
_TEXTS = _Shape("array", items=_TEXT)

_SCALE = _Shape("object", known={"specReplicasPath": _TEXT, "statusReplicasPath": _TEXT, "labelSelectorPath": _TEXT})
_COLUMN = _Shape(
    "object",
    needed={"name": _TEXT, "type": _TEXT, "jsonPath": _TEXT},
    known={"format": _TEXT, "description": _TEXT, "priority": _WHOLE, "x-oarlock-relative": _FLAG},
)
_SUBRESOURCE = _Shape(
    "object",
    needed={"name": _TEXT, "verbs": _TEXTS, "version": _TEXT, "kind": _TEXT},
    known={
        "group": _TEXT,
        "requestSchema": _ANY_OBJECT,
        "responseSchema": _ANY_OBJECT,
        "fields": _TEXTS,
        "shared": _FLAG,
    },
)
_VERSION = _Shape(
    "object",
    needed={"name": _TEXT, "served": _FLAG, "storage": _FLAG},
    known={
        "deprecated": _FLAG,
        "deprecationWarning": _TEXT,
        "schema": _Shape("object", known={"openAPIV3Schema": _ANY_OBJECT}),
        "subresources": _Shape("object", known={"status": _ANY_OBJECT, "scale": _SCALE}),
        "additionalPrinterColumns": _Shape("array", items=_COLUMN),
        "selectableFields": _Shape("array", items=_Shape("object", needed={"jsonPath": _TEXT})),
        "x-oarlock-subresources": _Shape("array", items=_SUBRESOURCE),
    },
)
_NAMES = _Shape(
    "object",
    needed={"plural": _TEXT, "kind": _TEXT},
    known={"singular": _TEXT, "listKind": _TEXT, "shortNames": _TEXTS, "categories": _TEXTS},
)
_SPEC = _Shape(
    "object",
    needed={"group": _TEXT, "names": _NAMES, "scope": _TEXT, "versions": _Shape("array", items=_VERSION)},
    known={
        "preserveUnknownFields": _FLAG,
        "x-oarlock-hub": _TEXT,
        "x-oarlock-typed": _FLAG,
        "x-oarlock-generation": _FLAG,
        "x-oarlock-unconditional-update": _FLAG,
        "x-oarlock-create-on-update": _FLAG,
        "x-oarlock-delete-returns": _TEXT,
        "x-oarlock-ttl-seconds": _WHOLE,
        "x-oarlock-name-rule": _TEXT,
        "x-oarlock-gc-default": _TEXT,
    },
)
_CRD = _Shape(
    "object",
    needed={"spec": _SPEC},
    known={"apiVersion": _TEXT, "kind": _TEXT, "metadata": _Shape("object", known={"name": _TEXT})},
)


def shape_errors(tree: Any) -> Iterator[FieldError]:
    """Errors for missing keys and values of wrong types, with their paths. Null counts as missing."""
    yield from _walk(tree, _CRD, "")
    if type(tree) is not dict:
        return
    for key, expected in (("apiVersion", "apiextensions.k8s.io/v1"), ("kind", "CustomResourceDefinition")):
        value = tree.get(key)
        if type(value) is str and value != expected:
            yield NotSupported(key, value, [expected])


def _walk(value: Any, shape: _Shape, path: str) -> Iterator[FieldError]:
    actual = json_type(value)
    if actual != shape.kind:
        yield TypeInvalid(path or "<nil>", actual, f"must be of type {shape.kind}")
        return
    if shape.items is not None:
        for i, item in enumerate(value):
            yield from _walk(item, shape.items, f"{path}[{i}]")
    for key, inner in shape.needed.items():
        where = f"{path}.{key}" if path else key
        if value.get(key) is None:
            yield Required(where)
        else:
            yield from _walk(value[key], inner, where)
    for key, inner in shape.known.items():
        if value.get(key) is not None:
            yield from _walk(value[key], inner, f"{path}.{key}" if path else key)
