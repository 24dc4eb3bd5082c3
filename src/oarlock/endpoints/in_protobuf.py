"""Objects as other messages than JSON: in protobuf, and reduced to their metadata (PartialObjectMetadata).

Kubernetes' own kinds are written by its table of fields, declared types by the numbers in their schemas. Metadata is
cut out of the bytes of an object, because metadata informers and garbage collectors list whole resources this way;
items of these lists have kind and apiVersion, unlike the items of other lists.
Must not know: storage, requests. See also: ``codec.kubernetes_messages``, which reads and writes by tables;
``codec.kubernetes_messages``; ``schema.structural.proto_numbers``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from oarlock.codec import protobuf
from oarlock.codec.kubernetes_messages import LIST, Message, kubernetes_message, meta_message
from oarlock.codec.protobuf_values import MessageField
from oarlock.codec.protowire import ProtobufError
from oarlock.meta.errors import InternalError
from oarlock.meta.kinds import BUILT_IN_GROUPS, GroupVersionKind
from oarlock.schema.definition import Schema
from oarlock.schema.structural.proto_numbers import proto_fields


class _Object(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(_Object).decode
_encode = msgspec.json.Encoder().encode


def metadata_of(body: bytes) -> bytes:
    """The JSON of ``metadata`` in the JSON of an object, which may lack its opening brace (as a stored tail does).

    Raises ``msgspec.DecodeError`` if it isn't the JSON of an object.
    """
    return bytes(_decode(b"{" + body if body[:1] == b'"' else body).metadata)


def partial_prefix(version: str = "v1") -> bytes:
    """The JSON before the value of ``metadata`` in a PartialObjectMetadata of that version of ``meta.k8s.io``."""
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":' % version.encode()


_V1 = partial_prefix()


def partial(body: bytes, version: str = "v1") -> bytes:
    """An object's JSON (or its tail from ``"metadata"`` on) as a PartialObjectMetadata."""
    return b"%s%s}" % (_V1 if version == "v1" else partial_prefix(version), metadata_of(body))


def partial_list_head(list_meta: dict[str, Any], version: str = "v1") -> bytes:
    """The JSON before the items of a PartialObjectMetadataList; `partial` makes the items."""
    head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%s","metadata":' % version.encode()
    return b'%s%s,"items":[' % (head, _encode(list_meta))


class _TypeMeta(msgspec.Struct):
    kind: str
    apiVersion: str | None = None


_type_meta = msgspec.json.Decoder(_TypeMeta).decode


def message_for(gvk: GroupVersionKind, schema: Schema) -> Message | None:
    """The message of a kind that behaves like Kubernetes' own; None if it has none.

    A kind of Kubernetes has Kubernetes' fields, unless the schema numbers its own, or has a field beside them.
    """
    own = message_of(schema, gvk.kind)
    if own is not None:
        return own
    group = BUILT_IN_GROUPS.get(gvk.group)
    if group is None:
        return None
    try:
        message = kubernetes_message(f"{group.package.rpartition('.')[2]}.{gvk.version}.{gvk.kind}")
    except KeyError:
        return None
    names = {"apiVersion", "kind", *(field.name for field in message.fields)}
    return message if names.issuperset(schema.get("properties") or ()) else None


def message_of(schema: Schema, name: str, *, root: bool = True) -> Message | None:
    """The message of a type by the numbers of its fields; None if they have none."""
    fields = proto_fields(schema, root=root)
    if fields is None:
        return None
    made = []
    for field in fields:
        kind: str | Message = field.kind
        if field.kind == "ObjectMeta":
            kind = kubernetes_message("meta.v1.ObjectMeta")
        elif field.kind == "strings":
            kind = Message("list", (MessageField("items", 1, many="list"),), LIST)
        elif field.kind == "message":
            kind = message_of(field.schema, field.name, root=False) or Message(field.name, ())
        made.append(MessageField(field.name, field.number, kind, field.many, field.omitted))
    return Message(name, tuple(made))


class MessageEncoder(NamedTuple):
    """Writes the body of an object in JSON as a bare message. Raises InternalError if it doesn't fit its type."""

    message: Message

    def __call__(self, body: bytes) -> bytes:
        return _written(self.message, b"{" + body)


class MetadataEncoder(NamedTuple):
    """Writes the metadata of an object's body as the message of a PartialObjectMetadata of this version."""

    version: str

    def __call__(self, body: bytes) -> bytes:
        return protobuf.message_of(partial(body, self.version))


class OwnMessage(NamedTuple):
    """A resource's apiVersion, kind and message; None for a resource whose fields have no numbers."""

    api_version: str
    kind: str
    message: Message | None


def object_from_json(own: OwnMessage, data: bytes) -> bytes:
    """An object or meta kind in JSON as a protobuf envelope.

    Raises InternalError if the object doesn't fit its type, which only one written by other means can do.
    """
    is_of = _type_meta(data)
    api_version, kind, message = own
    if message is None or (is_of.apiVersion, is_of.kind) != (api_version, kind):
        api_version, kind = is_of.apiVersion or "v1", is_of.kind
        message = meta_message(kind)
    return protobuf.envelope(api_version, kind, _written(message, data))


def _written(message: Message, data: bytes) -> bytes:
    try:
        return message.write_json(data)
    except ProtobufError as error:
        raise InternalError(str(error)) from None
