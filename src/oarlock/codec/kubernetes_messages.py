"""The protobuf messages of Kubernetes' own types, by names such as ``core.v1.Pod`` and ``meta.v1.ObjectMeta``.

They come from ``kubernetes_fields.txt`` beside this file, which ``tools/kubernetes_fields`` makes of Go's types; its
grammar is described there. A line is only looked into when its message is used: a program that speaks no protobuf
reads nothing of it.
See also: `protobuf_reading` and `protobuf_writing`, which compile what reads and writes a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from oarlock.codec import json as json_codec
from oarlock.codec.protobuf_reading import read_message
from oarlock.codec.protobuf_values import Form, MessageField, MessageType
from oarlock.codec.protobuf_writing import write_json


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


_VALUES = {
    "meta.v1.Time": "Time",
    "meta.v1.MicroTime": "MicroTime",
    "meta.v1.FieldsV1": "JSON",
    "runtime.RawExtension": "JSON",
    "apiextensions.v1.JSON": "JSON",
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
}
"""The messages that are one value in JSON, and the kind of value."""

_SCALARS = frozenset({"string", "bytes", "int32", "int64", "bool", "double"})
_FIELD = re.compile(r"(?P<name>[^=?]*)(?P<omitted>\??)=(?P<number>\d+)(:(?P<many>\[\]|\{\})?(?P<kind>\S*))?")

LIST = Form(lambda tree: tree.get("items", []), lambda items: {"items": items})
"""A message that is a list in JSON."""


def _schema_or_list(name: str) -> Form:
    """A schema, or a list in the field `name`."""
    return Form(
        lambda tree: tree.get(name) or tree.get("schema"),
        lambda value: {name: value} if isinstance(value, list) else {"schema": value},
    )


_FORMS = {
    "apiextensions.v1.JSONSchemaPropsOrArray": _schema_or_list("jSONSchemas"),
    "apiextensions.v1.JSONSchemaPropsOrStringArray": _schema_or_list("property"),
    "apiextensions.v1.JSONSchemaPropsOrBool": Form(
        lambda tree: tree["schema"] if "schema" in tree else tree.get("allows", False),
        lambda value: {"allows": value} if isinstance(value, bool) else {"allows": True, "schema": value},
    ),
}

META_KINDS = {
    "Status": "meta.v1.Status",
    "PartialObjectMetadata": "meta.v1.PartialObjectMetadata",
    "PartialObjectMetadataList": "meta.v1.PartialObjectMetadataList",
    "APIGroup": "meta.v1.APIGroup",
    "APIGroupList": "meta.v1.APIGroupList",
    "APIResourceList": "meta.v1.APIResourceList",
    "APIVersions": "meta.v1.APIVersions",
    "APIGroupDiscoveryList": "apidiscovery.v2.APIGroupDiscoveryList",
}
"""The kinds that are answered in protobuf whatever resource they are about, and their messages."""


@cache
def _lines() -> Mapping[str, str]:
    """The fields of all messages, as the table has them."""
    table = Path(__file__).with_name("kubernetes_fields.txt").read_text("utf-8")
    return {name: fields for name, _, fields in (line.partition(" ") for line in table.splitlines())}


@cache
def kubernetes_message(name: str) -> Message:
    """The message of this name. KeyError when there is none."""
    line = _lines()[name]
    form = LIST if line.startswith("[] ") else _FORMS.get(name)
    return Message(name.rpartition(".")[2], lambda: _fields(name, line), form)


def meta_message(kind: str) -> Message:
    """The message of one of `META_KINDS`. KeyError for another kind."""
    return kubernetes_message(META_KINDS[kind])


def _fields(message: str, line: str) -> tuple[MessageField, ...]:
    package = message.rpartition(".")[0]
    return tuple(_field(text, package) for text in line.split() if text != "[]")


def _field(text: str, package: str) -> MessageField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"kubernetes_fields.txt: {text!r} is no field")
    many = {"[]": "list", "{}": "map"}.get(match["many"] or "", "")
    name = match["kind"] or "string"
    if name not in _SCALARS and "." not in name:
        name = f"{package}.{name}"
    kind: str | Message = name
    if name not in _SCALARS:
        kind = _VALUES[name] if name in _VALUES else kubernetes_message(name)
    return MessageField(match["name"], int(match["number"]), kind, many, bool(match["omitted"]))
