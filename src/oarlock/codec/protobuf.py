"""Kubernetes' protobuf envelope, and the one body every client-go sends in it: DeleteOptions.

The envelope is ``k8s\\0`` followed by ``runtime.Unknown{typeMeta, raw}``. Messages are described at run time
from the field numbers the API publishes, so nothing is generated.
Source: k8s.io/apimachinery ``runtime/serializer/protobuf``, ``meta/v1/generated.proto``.
Must not know: HTTP, options (``meta.options_parse`` reads the tree this returns).
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

__all__ = ["MAGIC", "ProtobufError", "decode_delete_options"]

MAGIC = b"k8s\x00"

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "int64": _FIELD.TYPE_INT64,
    "bool": _FIELD.TYPE_BOOL,
}
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "TypeMeta": {"apiVersion": (1, "string"), "kind": (2, "string")},
    "Unknown": {
        "typeMeta": (1, "TypeMeta"),
        "raw": (2, "bytes"),
        "contentEncoding": (3, "string"),
        "contentType": (4, "string"),
    },
    "Preconditions": {"uid": (1, "string"), "resourceVersion": (2, "string")},
    "DeleteOptions": {
        "gracePeriodSeconds": (1, "int64"),
        "preconditions": (2, "Preconditions"),
        "orphanDependents": (3, "bool"),
        "propagationPolicy": (4, "string"),
        "dryRun": (5, "repeated string"),
        "ignoreStoreReadErrorWithClusterBreakingPotential": (6, "bool"),
    },
}


class ProtobufError(ValueError):
    """The bytes aren't the message they should be."""


def _classes() -> dict[str, type[message.Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="oarlock/meta.proto", package="oarlock.meta", syntax="proto2")
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = _FIELD.LABEL_REPEATED if kind.startswith("repeated ") else _FIELD.LABEL_OPTIONAL
            kind = kind.removeprefix("repeated ")
            made = described.field.add(name=field, number=number, label=label)
            if kind in _TYPES:
                made.type = _TYPES[kind]
            else:
                made.type, made.type_name = _FIELD.TYPE_MESSAGE, f".oarlock.meta.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"oarlock.meta.{name}")) for name in _MESSAGES
    }


_CLASSES = _classes()


def decode_delete_options(data: bytes) -> dict[str, Any]:
    """The DeleteOptions in an envelope as the tree its JSON would be. Raises ProtobufError."""
    if not data.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    unknown = _parse("Unknown", data[len(MAGIC) :])
    tree = _tree(_parse("DeleteOptions", unknown.raw))
    tree["apiVersion"] = unknown.typeMeta.apiVersion or "v1"
    tree["kind"] = unknown.typeMeta.kind or "DeleteOptions"
    return tree


def _parse(name: str, data: bytes) -> Any:
    parsed = _CLASSES[name]()
    try:
        parsed.ParseFromString(data)
    except message.DecodeError as error:
        raise ProtobufError(f"proto: {name} can't be read: {error}") from None
    return parsed


def _tree(parsed: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for field, value in parsed.ListFields():
        if isinstance(value, message.Message):
            tree[field.name] = _tree(value)
        elif isinstance(value, (str, int, bool)):
            tree[field.name] = value
        else:
            tree[field.name] = list(value)
    return tree
