"""The schema of ObjectMeta, for everything that is done to metadata as to any other part of a tree.

Whether names and labels are well formed is `objectmeta`'s. Source: meta/v1 ObjectMeta, OwnerReference,
ManagedFieldsEntry, with Go's names for the types that decoding errors mention.
"""

from __future__ import annotations

from typing import Any, Final

from oarlock.schema.merge_keys import MERGE_KEY, STRATEGY
from oarlock.schema.structural import Node, parse

__all__ = ["OBJECT_META", "OBJECT_META_SCHEMA"]

Schema = dict[str, Any]

_OMITTED: Final = "x-oarlock-omit-empty"
_GO: Final = "x-oarlock-go-type"


def _text(go_type: str = "") -> Schema:
    schema: Schema = {"type": "string", _OMITTED: True}
    return {**schema, _GO: go_type} if go_type else schema


_TIME: Schema = {"type": "string", "format": "date-time"}
_INT64: Schema = {"type": "integer", "format": "int64"}
_BOOL: Schema = {"type": "boolean"}
_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT, _OMITTED: True}

_OWNER_REFERENCE: Schema = {
    "type": "object",
    _GO: "v1.OwnerReference",
    "properties": {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "name": _TEXT,
        "uid": {"type": "string", _GO: "types.UID"},
        "controller": _BOOL,
        "blockOwnerDeletion": _BOOL,
    },
}

_MANAGED_FIELDS: Schema = {
    "type": "object",
    _GO: "v1.ManagedFieldsEntry",
    "properties": {
        "manager": _text(),
        "operation": _text("v1.ManagedFieldsOperationType"),
        "apiVersion": _text(),
        "time": _TIME,
        "fieldsType": _text(),
        "fieldsV1": {"x-kubernetes-preserve-unknown-fields": True},
        "subresource": _text(),
    },
}

OBJECT_META_SCHEMA: Final[Schema] = {
    "type": "object",
    _GO: "v1.ObjectMeta",
    "properties": {
        "name": _text(),
        "generateName": _text(),
        "namespace": _text(),
        "selfLink": _text(),
        "uid": _text("types.UID"),
        "resourceVersion": _text(),
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
