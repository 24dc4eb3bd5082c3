"""Protobuf messages by tables: a `Message` has fields with names, numbers and kinds, and reads and writes objects.

Must not know: kinds of objects, envelopes. See also: `kubernetes_messages`, the table of Kubernetes' own;
`protobuf_reading` and `protobuf_writing`, which compile what reads and writes a message.
"""

from __future__ import annotations

from typing import Any

from oarlock.codec import json as json_codec
from oarlock.codec.protobuf_reading import read_message
from oarlock.codec.protobuf_values import MAX_DEPTH, Form, MessageField, MessageType
from oarlock.codec.protobuf_writing import write_json

__all__ = ["MAX_DEPTH", "Form", "Message", "MessageField"]


class Message(MessageType):
    """A protobuf message for a JSON object, or another value by its `form`."""

    __slots__ = ()

    def write(self, tree: Any) -> bytes:
        """Encode a tree. Keys without a field, and nulls, are left out. Raises ProtobufError."""
        return write_json(self, json_codec.encode(tree))

    def write_json(self, data: bytes) -> bytes:
        """Encode an object in JSON, as `write` encodes its tree."""
        return write_json(self, data)

    def read(self, data: bytes) -> Any:
        """Decode a message to a tree. Raises ProtobufError."""
        return read_message(self, data)
