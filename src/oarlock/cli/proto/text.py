"""A numbered version of a resource as the text of a ``.proto`` file, for clients in other languages.

Messages of inner types are named after the path to them; the wire doesn't know names.
Must not know: bytes. Source: protobuf language specification, version 2. See also: ``schema.structural.proto_numbers``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from oarlock.cli.proto.reading import ReservedNumbers
from oarlock.schema.definition import ResourceDefinition, Schema
from oarlock.schema.structural.proto_numbers import ProtoField, proto_fields

__all__ = ["proto_text"]

_META = "k8s.io.apimachinery.pkg.apis.meta.v1"
_KINDS = {
    "ObjectMeta": (f"{_META}.ObjectMeta", "apis/meta/v1"),
    "Time": (f"{_META}.Time", "apis/meta/v1"),
    "MicroTime": (f"{_META}.MicroTime", "apis/meta/v1"),
    "Quantity": ("k8s.io.apimachinery.pkg.api.resource.Quantity", "api/resource"),
    "IntOrString": ("k8s.io.apimachinery.pkg.util.intstr.IntOrString", "util/intstr"),
    "JSON": ("k8s.io.apimachinery.pkg.runtime.RawExtension", "runtime"),
}


def proto_text(
    definition: ResourceDefinition, version: str, reserved: Mapping[str, Sequence[ReservedNumbers]] | None = None
) -> str:
    """The file that describes a version's objects and lists of them; empty when its fields have no numbers.

    `reserved` are the numbers that no field may have any more, by message.
    """
    schema = definition.version(version).schema
    fields = proto_fields(schema)
    if fields is None:
        return ""
    kind, list_kind = definition.names.kind, definition.names.list_kind
    file = _File(reserved or {}, list_kind)
    file.message(kind, schema, fields)
    file.messages.append(
        f"message {list_kind} {{\n  optional {_META}.ListMeta metadata = 1;\n  repeated {kind} items = 2;\n}}\n"
    )
    package = re.sub(r"[^\w.]", "_", f"{definition.group or 'core'}.{version}")
    head = 'syntax = "proto2";\n\n' + f"package {package};\n\n"
    files = [f'import "k8s.io/apimachinery/pkg/{name}/generated.proto";\n' for name in sorted(file.imports)]
    return head + "".join(files) + "\n" + "\n".join(file.messages)


class _File:
    """The messages and imports of a file while it is written."""

    def __init__(self, reserved: Mapping[str, Sequence[ReservedNumbers]], *taken: str) -> None:
        self.messages: list[str] = []
        self.imports = {"apis/meta/v1"}
        self._reserved = reserved
        self._names = set(taken)

    def message(self, name: str, schema: Schema, fields: list[ProtoField]) -> None:
        self._names.add(name)
        place = len(self.messages)
        lines = [*_comment(schema, ""), f"message {name} {{"]
        for one in fields:
            if one.kind == "message":
                kind = self._name(name + one.name[:1].upper() + _identifier(one.name[1:]))
                self.message(kind, one.schema, proto_fields(one.schema, root=False) or [])
            elif one.kind in _KINDS:
                kind, file = _KINDS[one.kind]
                self.imports.add(file)
            else:
                kind = one.kind
            declaration = {"": f"optional {kind}", "list": f"repeated {kind}", "map": f"map<string, {kind}>"}[one.many]
            if one.kind != "message":  # whose own comment it is
                lines += _comment(one.schema, "  ")
            lines.append(f"  {declaration} {_identifier(one.name)} = {one.number};")
        for numbers in self._reserved.get(name, ()):
            until = "" if numbers.last == numbers.first else f" to {numbers.last}"
            lines.append(f"  reserved {numbers.first}{until};" + (f"  // {numbers.note}" if numbers.note else ""))
        self.messages.insert(place, "\n".join([*lines, "}", ""]))

    def _name(self, name: str) -> str:
        """`name`, or another when two paths make the same one."""
        while name in self._names:
            name += "_"
        return name


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _comment(schema: Schema, indent: str) -> list[str]:
    return [f"{indent}// {line}".rstrip() for line in str(schema.get("description") or "").splitlines()]
