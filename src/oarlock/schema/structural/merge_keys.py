"""The strategic merge patch strategy of a list or object: the one module that reads or derives the merge key.

A schema gives it with ``x-kubernetes-patch-strategy`` and ``x-kubernetes-patch-merge-key``. A list of type map
with one key merges by that key by default; derived keys
are also published in OpenAPI, because clients make patches from it.
Must not know: patches. See also: ``patch.strategic_merge.merge_schema``, which compiles whole schemas.
Source: API conventions, "Strategic Merge Patch"; kube-openapi extension names.
"""

from __future__ import annotations

from typing import Any, Final

from oarlock.schema.definition import Schema
from oarlock.schema.structural.nodes import Node, parse

STRATEGY = "x-kubernetes-patch-strategy"
MERGE_KEY = "x-kubernetes-patch-merge-key"
STRATEGIES = frozenset({"merge", "replace", "retainKeys"})

_NOTHING: dict[str, str] = {}


def merge_keys(schema: dict[str, Any]) -> dict[str, str]:
    """The strategy and merge key of a schema, under their published names; empty for the default.

    By default objects merge field by field and lists are replaced as a whole. A strategy may be two, joined by a comma:
    ``merge,retainKeys``.
    """
    strategy, key = _text(schema.get(STRATEGY)), _text(schema.get(MERGE_KEY))
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") == "map" and isinstance(keys, list) and len(keys) == 1:
        key = key or keys[0]
        if not strategy:
            strategy = "merge"
        elif strategy == "retainKeys":
            strategy = "merge,retainKeys"
    if not strategy:
        return _NOTHING
    return {MERGE_KEY: key, STRATEGY: strategy} if key and "merge" in strategy else {STRATEGY: strategy}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_OMITTED: Final = "x-oarlock-omit-empty"

_TIME: Schema = {"type": "string", "format": "date-time"}
_INT64: Schema = {"type": "integer", "format": "int64"}
_BOOL: Schema = {"type": "boolean"}
_TEXT: Schema = {"type": "string"}
_OMITTED_TEXT: Schema = {"type": "string", _OMITTED: True}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT, _OMITTED: True}

_OWNER_REFERENCE: Schema = {
    "type": "object",
    "properties": {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "name": _TEXT,
        "uid": _TEXT,
        "controller": _BOOL,
        "blockOwnerDeletion": _BOOL,
    },
}

_MANAGED_FIELDS: Schema = {
    "type": "object",
    "properties": {
        "manager": _OMITTED_TEXT,
        "operation": _OMITTED_TEXT,
        "apiVersion": _OMITTED_TEXT,
        "time": _TIME,
        "fieldsType": _OMITTED_TEXT,
        "fieldsV1": {"x-kubernetes-preserve-unknown-fields": True},
        "subresource": _OMITTED_TEXT,
    },
}

OBJECT_META_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "name": _OMITTED_TEXT,
        "generateName": _OMITTED_TEXT,
        "namespace": _OMITTED_TEXT,
        "selfLink": _OMITTED_TEXT,
        "uid": _OMITTED_TEXT,
        "resourceVersion": _OMITTED_TEXT,
        "generation": {**_INT64, _OMITTED: True},
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
        "deletionGracePeriodSeconds": _INT64,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "ownerReferences": {
            "type": "array",
            "items": _OWNER_REFERENCE,
            _OMITTED: True,
            MERGE_KEY: "uid",
            STRATEGY: "merge",
        },
        "finalizers": {"type": "array", "items": _TEXT, _OMITTED: True, STRATEGY: "merge"},
        "managedFields": {"type": "array", "items": _MANAGED_FIELDS, _OMITTED: True},
    },
}

OBJECT_META: Final[Node] = parse(OBJECT_META_SCHEMA, "metadata")
"""`OBJECT_META_SCHEMA`, read."""

_INITIALIZERS: Schema = {
    "type": "object",
    "properties": {
        "pending": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": _TEXT}},
            MERGE_KEY: "name",
            STRATEGY: "merge",
        },
        "result": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}

INITIALIZED_META: Final[Node] = parse(
    {"type": "object", "properties": {**OBJECT_META_SCHEMA["properties"], "initializers": _INITIALIZERS}}, "metadata"
)
"""The same for objects that have initializers."""
