"""Kubernetes' protobuf: the envelope of objects, the frames of watches, and the meta kinds in them.

The envelope is ``k8s\\0`` followed by ``runtime.Unknown{typeMeta, raw}``; a frame is a length of four bytes,
big-endian, and a ``WatchEvent`` whose object is in an envelope of its own.
Must not know: HTTP.
Source: k8s.io/apimachinery ``runtime/serializer/protobuf``. See also: `kubernetes_messages`, the table of what is in
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from oarlock.codec.kubernetes_messages import Message, kubernetes_message, meta_message
from oarlock.codec.protowire import ProtobufError, fields_in, tagged, varint

__all__ = [
    "MAGIC",
    "ProtobufError",
    "decode",
    "encode",
    "envelope",
    "frame",
    "list_ends",
    "listed",
    "message_of",
    "opened",
]

MAGIC = b"k8s\x00"


class _KindOnly(msgspec.Struct):
    kind: str


_KIND = msgspec.json.Decoder(_KindOnly)


def encode(tree: dict[str, Any]) -> bytes:
    """An object of one of the meta kinds in an envelope. KeyError for another kind."""
    return envelope(tree.get("apiVersion") or "v1", tree["kind"], meta_message(tree["kind"]).write(tree))


def message_of(data: bytes) -> bytes:
    """The message for the JSON of an object of a meta kind, without envelope, as in the items of a list."""
    kind = _KIND.decode(data).kind
    return meta_message(kind).write_json(data)


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    """A message in an envelope. Encoding and content type are written empty, as Go does."""
    return b"".join((_opening(api_version, kind, len(message)), message, _CLOSING))


def _opening(api_version: str, kind: str, size: int) -> bytes:
    """An envelope as far as its message, which has `size` bytes."""
    type_meta = tagged(1, api_version.encode()) + tagged(2, kind.encode())
    return MAGIC + tagged(1, type_meta) + b"\x12" + varint(size)


_CLOSING = b"\x1a\x00\x22\x00"


def list_ends(api_version: str, kind: str, list_meta: dict[str, Any], size: int) -> tuple[bytes, bytes]:
    """What comes before and after the items of a list, which have `size` bytes as `listed` writes them.

    In every list kind, field 1 is the metadata and field 2 the items, as messages.
    """
    head = tagged(1, kubernetes_message("meta.v1.ListMeta").write(list_meta))
    return _opening(api_version, kind, len(head) + size) + head, _CLOSING


def listed(items: Iterable[bytes]) -> bytes:
    """Messages as items of a list."""
    parts: list[bytes] = []
    for item in items:
        parts += (b"\x12", varint(len(item)), item)
    return b"".join(parts)


def frame(event: str, obj: bytes) -> bytes:
    """A watch event: its type and an object in an envelope."""
    message = tagged(1, event.encode()) + tagged(2, tagged(1, obj))
    return len(message).to_bytes(4, "big") + message


def decode(data: bytes, message: Message) -> dict[str, Any]:
    """The object in an envelope, with apiVersion and kind if the envelope has them. Raises DecodeError."""
    type_meta, raw = opened(data)
    tree: dict[str, Any] = message.read(raw)
    return {**type_meta, **tree}


def opened(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The apiVersion and kind that an envelope says, and the message in it. Raises DecodeError."""
    if not data.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    type_meta: dict[str, Any] = {}
    raw = b""
    for number, wire, value in fields_in(data[len(MAGIC) :]):
        if number in (1, 2) and wire != 2:
            raise ProtobufError(
                f"proto: wrong wireType = {wire} for field {('TypeMeta', 'Raw')[number - 1]} of Unknown"
            )
        if number == 1:
            type_meta = kubernetes_message("runtime.TypeMeta").read(value)
        elif number == 2:
            raw = value
    return type_meta, raw
