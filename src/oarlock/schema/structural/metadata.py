"""The schema of ObjectMeta, so that metadata is handled like any other part of a tree.

`objectmeta` validates names, labels and so on. Source: meta/v1 ObjectMeta, OwnerReference,
ManagedFieldsEntry.
"""

from __future__ import annotations

from typing import Final

from oarlock.schema.definition import Schema
from oarlock.schema.structural.merge_keys import MERGE_KEY, STRATEGY
from oarlock.schema.structural.nodes import Node, parse

__all__ = ["INITIALIZED_META", "OBJECT_META", "OBJECT_META_SCHEMA"]


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
