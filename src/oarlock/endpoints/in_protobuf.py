"""Objects of declared types in protobuf, by the field numbers their schemas give.

Must not know: storage, requests. See also: ``codec.protowire``, which reads and writes by tables;
``schema.proto_numbers``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from oarlock.codec import protobuf
from oarlock.codec.protobuf_meta import KINDS, OBJECT_META
from oarlock.codec.protowire import Message, MessageField, ProtobufError
from oarlock.meta.errors import InternalError
from oarlock.schema.definition import Schema
from oarlock.schema.proto_numbers import proto_fields

__all__ = ["OwnMessage", "message_of", "object_from_json", "object_message"]

_decode = msgspec.json.Decoder().decode


def message_of(schema: Schema, name: str, *, root: bool = True) -> Message | None:
    """The message of a type; None if its fields have no numbers."""
    fields = proto_fields(schema, root=root)
    if fields is None:
        return None
    made = []
    for one in fields:
        kind: str | Message = one.kind
        if one.kind == "ObjectMeta":
            kind = OBJECT_META
        elif one.kind == "strings":
            kind = Message("list", (MessageField("items", 1, many="list"),), wrapped=True)
        elif one.kind == "message":
            kind = message_of(one.schema, one.name, root=False) or Message(one.name, ())
        made.append(MessageField(one.name, one.number, kind, one.many, one.omitted))
    return Message(name, tuple(made))


def object_message(message: Message, data: bytes) -> bytes:
    """The bare message of an object in JSON. Raises InternalError if it doesn't fit its type."""
    return _written(message, _decode(data))


class OwnMessage(NamedTuple):
    """A resource's apiVersion, kind and message; None for a resource whose fields have no numbers."""

    api_version: str
    kind: str
    message: Message | None


def object_from_json(own: OwnMessage, data: bytes) -> bytes:
    """An object or meta kind in JSON as a protobuf envelope.

    Raises InternalError if the object doesn't fit its type, which only one written by other means can do.
    """
    tree: dict[str, Any] = _decode(data)
    api_version, kind, message = own
    if message is None or (tree.get("apiVersion"), tree["kind"]) != (api_version, kind):
        return protobuf.envelope(tree.get("apiVersion") or "v1", tree["kind"], _written(KINDS[tree["kind"]], tree))
    return protobuf.envelope(api_version, kind, _written(message, tree))


def _written(message: Message, tree: dict[str, Any]) -> bytes:
    try:
        return message.write(tree)
    except ProtobufError as error:
        raise InternalError(str(error)) from None
