"""Kubernetes' messages as the protobuf library knows them, with descriptors made from the table in its own way.

`Described` makes objects for a message, and turns the library's messages into what JSON has and back. It shares nothing
with the codec but the file.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

__all__ = ["Described", "Field"]

TYPES = {"string": 9, "bytes": 12, "int32": 5, "int64": 3, "bool": 8, "double": 1}
MESSAGE, OPTIONAL, REPEATED = 11, 1, 3
SECOND = 1_800_000_000
WHEN = "2027-01-15T08:00:00"
RAW = ("meta.v1.FieldsV1", "runtime.RawExtension", "apiextensions.v1.JSON")
SCHEMA = "apiextensions.v1.JSONSchemaProps"


@dataclass(frozen=True)
class Field:
    """A field as the table has it: `kind` is a scalar or a message's full name; `many` is ``[]``, ``{}`` or empty."""

    name: str
    number: int
    kind: str
    many: str
    omitted: bool

    @property
    def attribute(self) -> str:
        return f"f{self.number}"


class Described:
    def __init__(self) -> None:
        text = (resources.files("oarlock.codec") / "kubernetes_fields.txt").read_text()
        self.messages: dict[str, list[Field]] = {}
        self.lists: set[str] = set()
        for line in text.splitlines():
            name, *parts = line.split(" ")
            if parts[:1] == ["[]"]:
                self.lists.add(name)
                del parts[0]
            self.messages[name] = [field(part, name.rpartition(".")[0]) for part in parts]
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self._file())
        self.classes: dict[str, type[Message]] = {
            name: message_factory.GetMessageClass(pool.FindMessageTypeByName(flat(name))) for name in self.messages
        }

    def _file(self) -> descriptor_pb2.FileDescriptorProto:
        file = descriptor_pb2.FileDescriptorProto(name="table.proto", syntax="proto2")
        for name, fields in self.messages.items():
            message = file.message_type.add(name=flat(name))
            for one in fields:
                made = message.field.add(
                    name=one.attribute, number=one.number, label=REPEATED if one.many else OPTIONAL
                )
                if one.many == "{}":
                    entry = message.nested_type.add(name=f"F{one.number}Entry")
                    entry.options.map_entry = True
                    entry.field.add(name="key", number=1, label=OPTIONAL, type=TYPES["string"])
                    typed(entry.field.add(name="value", number=2, label=OPTIONAL), one.kind)
                    made.type, made.type_name = MESSAGE, f".{flat(name)}.F{one.number}Entry"
                else:
                    typed(made, one.kind)
        return file

    # Objects: what JSON has for a message ---------------------------------------------------------

    def full(self, name: str, depth: int = 0) -> Any:
        """A value with something in every field, down to a depth of two messages."""
        special = sample(name)
        if special is not None:
            return special
        if name.startswith(f"{SCHEMA}Or"):
            return {"type": "string"}
        tree: dict[str, Any] = {}
        for one in self.messages[name]:
            if one.kind not in TYPES and sample(one.kind) is None and depth >= 2 and one.name:
                continue
            value = self.full(one.kind, depth + 1) if one.kind not in TYPES else SCALARS[one.kind]
            if not one.name:
                tree |= value
            else:
                tree[one.name] = [value, value] if one.many == "[]" else {"a": value, "é": value} if one.many else value
        return [*tree["items"]] if name in self.lists else tree

    def tree(self, name: str, message: Any) -> Any:
        """What JSON has for a message of the library."""
        if sample(name) is not None:
            return special_tree(name, message)
        if name.startswith(f"{SCHEMA}Or"):
            return self._alternatives(name, message)
        tree: dict[str, Any] = {}
        for one in self.messages[name]:
            value = getattr(message, one.attribute)
            if one.many == "{}":
                if value:
                    tree[one.name] = {key: self._single(one.kind, value[key]) for key in value}
            elif one.many:
                if value:
                    tree[one.name] = [self._single(one.kind, item) for item in value]
            elif message.HasField(one.attribute):
                found = self._single(one.kind, value)
                if not one.name:
                    tree |= found
                elif found or not one.omitted:
                    tree[one.name] = found
        return tree.get("items", []) if name in self.lists else tree

    def _single(self, kind: str, value: Any) -> Any:
        if kind == "bytes":
            return base64.b64encode(value).decode()
        return value if kind in TYPES else self.tree(kind, value)

    def _alternatives(self, name: str, message: Any) -> Any:
        if name.endswith("OrBool") and not message.HasField("f2"):
            return message.f1
        if not name.endswith("OrBool") and message.f2:
            return [self._single("string" if name.endswith("StringArray") else SCHEMA, one) for one in message.f2]
        return self.tree(SCHEMA, message.f2 if name.endswith("OrBool") else message.f1)

    def message(self, name: str, tree: Any) -> Any:
        """The library's message for what JSON has."""
        made: Any = self.classes[name]()
        self._fill(name, tree, made)
        return made

    def _fill(self, name: str, tree: Any, made: Any) -> None:
        made.SetInParent()
        if sample(name) is not None:
            fill_special(name, tree, made)
            return
        if name.startswith(f"{SCHEMA}Or"):
            if isinstance(tree, bool):
                made.f1 = tree
            else:
                self._fill(SCHEMA, tree, made.f2 if name.endswith("OrBool") else made.f1)
            return
        if name in self.lists:
            tree = {"items": tree}
        for one in self.messages[name]:
            value = tree if not one.name else tree.get(one.name)
            if value is None:
                continue
            into = getattr(made, one.attribute)
            if one.many == "{}":
                for key, item in value.items():
                    if one.kind in TYPES:
                        into[key] = plain(one.kind, item)
                    else:
                        self._fill(one.kind, item, into[key])
            elif one.many:
                for item in value:
                    if one.kind in TYPES:
                        into.append(plain(one.kind, item))
                    else:
                        self._fill(one.kind, item, into.add())
            elif one.kind in TYPES:
                setattr(made, one.attribute, plain(one.kind, value))
            else:
                self._fill(one.kind, value, into)


SCALARS: dict[str, Any] = {"string": "ö", "bytes": "AP8=", "int32": -7, "int64": 2**40, "bool": True, "double": 0.5}
_FIELD = re.compile(r"([^=?]*)(\??)=(\d+):?(\[\]|\{\})?(\S*)")


def field(text: str, package: str) -> Field:
    match = _FIELD.fullmatch(text)
    assert match is not None, text
    kind = match[5] or "string"
    if kind not in TYPES and "." not in kind:
        kind = f"{package}.{kind}"
    return Field(match[1], int(match[3]), kind, match[4] or "", bool(match[2]))


def flat(name: str) -> str:
    return name.replace(".", "_")


def typed(made: Any, kind: str) -> None:
    if kind in TYPES:
        made.type = TYPES[kind]
    else:
        made.type, made.type_name = MESSAGE, f".{flat(kind)}"


def plain(kind: str, value: Any) -> Any:
    return base64.b64decode(value) if kind == "bytes" else value


def sample(name: str) -> Any:
    """A value of a message that is one value in JSON; None for all others."""
    if name in RAW:
        return {"f:a": {}, "b": [1, None]}
    return {
        "meta.v1.Time": f"{WHEN}Z",
        "meta.v1.MicroTime": f"{WHEN}.000500Z",
        "resource.Quantity": "1500m",
        "intstr.IntOrString": "25%",
    }.get(name)


def special_tree(name: str, message: Any) -> Any:
    if name in RAW:
        return json.loads(message.f1)
    if name == "meta.v1.Time":
        assert (message.f1, message.f2) == (SECOND, 0)
        return f"{WHEN}Z"
    if name == "meta.v1.MicroTime":
        assert message.f1 == SECOND
        return f"{WHEN}.{message.f2 // 1000:06}Z"
    if name == "resource.Quantity":
        return message.f1
    return message.f3 if message.f1 else message.f2


def fill_special(name: str, value: Any, made: Any) -> None:
    if name in RAW:
        made.f1 = json.dumps(value).encode()
    elif name == "resource.Quantity":
        made.f1 = value
    elif name == "intstr.IntOrString":
        made.f1, made.f2, made.f3 = (1, 0, value) if isinstance(value, str) else (0, value, "")
    else:
        made.f1, made.f2 = SECOND, 500_000 if name == "meta.v1.MicroTime" else 0
