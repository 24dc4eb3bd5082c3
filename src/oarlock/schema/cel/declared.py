"""The view of a structural schema in expressions: a type for each level, and the conversion of tree values.

A `Decl` corresponds to a `structural.Node`. Trees are read as they are while the checker knows the schema
(`Decl`); values that are compared or passed to a function are converted first. A level
without a `convert` needs no conversion. Fields without a type in the schema aren't accessible.
See also: `native`, the conversions. Source: KEP-2876; apiextensions' schema model for CEL.
"""

from __future__ import annotations

import re
from dataclasses import field

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel import native, types
from oarlock.schema.cel.native import ToCel
from oarlock.schema.cel.types import CelType
from oarlock.schema.structural.nodes import Node

_KEYWORDS = (
    *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
    *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
)
_RESERVED = frozenset(_KEYWORDS)
_ESCAPED = {".": "__dot__", "-": "__dash__", "/": "__slash__", "__": "__underscores__"}
_IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_./-]*")
_to_escape = re.compile(r"__|[./-]").sub
_UNESCAPED = {escape: char for char, escape in _ESCAPED.items()}
_to_unescape = re.compile("|".join(_UNESCAPED)).sub


def escape(name: str) -> str | None:
    """The name of a field in an expression; None for one that can't be written."""
    if name in _RESERVED:
        return f"__{name}__"
    if _IDENTIFIER.fullmatch(name) is None:
        return None
    return _to_escape(lambda match: _ESCAPED[match[0]], name)


def unescape(name: str) -> str:
    """The name of the field that an expression means by `name`."""
    if name[:2] == "__" and name[2:-2] in _RESERVED and name[-2:] == "__":
        return name[2:-2]
    return _to_unescape(lambda match: _UNESCAPED[match[0]], name)


@dataclass(slots=True, eq=False)
class Decl:
    """One level of a schema. `fields` is by escaped name: the name in the tree, and its Decl.

    The fields of an object that is `computed` are asked of it with ``value_of(name)``.
    """

    type: CelType
    node: Node
    fields: dict[str, tuple[str, Decl]] = field(default_factory=dict)
    item: Decl | None = None
    convert: ToCel | None = None
    path: str = ""
    computed: bool = False


_TEXT = Node(type="string")
_META = Node(type="object", properties={"name": _TEXT, "generateName": _TEXT})
_SCALARS: dict[str, CelType] = {"boolean": types.BOOL, "integer": types.INT, "number": types.DOUBLE}
_FORMATS: dict[str, tuple[CelType, ToCel]] = {
    "byte": (types.BYTES, native.to_bytes),
    "date": (types.TIMESTAMP, native.to_timestamp),
    "date-time": (types.TIMESTAMP, native.to_timestamp),
    "duration": (types.DURATION, native.to_duration),
}


def declare(node: Node | None, *, root: bool = False, path: str = "self") -> Decl | None:
    """The Decl of a schema level; None if expressions can't access it. `root` is a whole object, which has metadata."""
    if node is None:
        return None
    if node.int_or_string:
        return Decl(types.DYN, node, convert=native.int_or_string, path=path)
    if root and node.type in ("object", ""):
        node = _whole(node)
    if node.type == "array":
        return _list(node, path)
    if node.type == "object":
        return _map(node, path) if isinstance(node.additional, Node) else _object(node, path)
    if node.type == "string":
        type_, convert = _FORMATS.get(node.format, (types.STRING, None))
        return Decl(type_, node, convert=convert, path=path)
    if node.type not in _SCALARS:
        return None
    return Decl(_SCALARS[node.type], node, convert=native.to_double if node.type == "number" else None, path=path)


def _whole(node: Node) -> Node:
    def has(inner: Node, name: str, kind: str) -> bool:
        return name in inner.properties and inner.properties[name].type == kind

    if has(node, "kind", "string") and has(node, "apiVersion", "string") and has(node, "metadata", "object"):
        meta = node.properties["metadata"]
        if has(meta, "name", "string") and has(meta, "generateName", "string"):
            return node
    properties = {**node.properties, "kind": _TEXT, "apiVersion": _TEXT, "metadata": _META}
    return Node(type="object", properties=properties, preserve=node.preserve, constraints=node.constraints)


def _list(node: Node, path: str) -> Decl | None:
    item = declare(node.items, root=bool(node.items and node.items.embedded), path=f"{path}[]")
    if item is None:
        return None
    convert: ToCel | None = None
    if node.list_type == "set":
        convert = native.set_list(item.convert)
    elif node.list_type == "map" and node.list_keys:
        convert = native.map_list(item.convert, node.list_keys)
    elif item.convert is not None:
        convert = native.list_of(item.convert)
    return Decl(types.list_of(item.type), node, item=item, convert=convert, path=path)


def _map(node: Node, path: str) -> Decl | None:
    assert isinstance(node.additional, Node)
    item = declare(node.additional, root=node.additional.embedded, path=f"{path}[]")
    if item is None:
        return None
    convert = native.map_of(item.convert) if item.convert is not None else None
    return Decl(types.map_of(types.STRING, item.type), node, item=item, convert=convert, path=path)


def _object(node: Node, path: str) -> Decl:
    decl = Decl(CelType("object", (), f"{path}.object" if path else "object"), node, path=path)
    decl.type.node = decl
    for name, child in node.properties.items():
        inner = declare(child, root=child.embedded, path=f"{path}.{name}")
        escaped = escape(name)
        if inner is not None and escaped is not None:
            decl.fields[escaped] = (name, inner)
            if name in _RESERVED:
                decl.fields[name] = (name, inner)  # most of them can be written as they are behind a dot
    names = {escaped: name for escaped, (name, _) in decl.fields.items()}
    converts = {name: inner.convert for name, inner in decl.fields.values() if inner.convert is not None}
    # an object always becomes an `Obj`, so that it never equals a map and hides what has no schema
    decl.convert = native.obj_of(names, converts, decl.type.name)
    return decl


_TEXT = Node(type="string")
_TEXTS = Node(type="array", items=_TEXT)

USER = Node(
    type="object",
    properties={
        "username": _TEXT,
        "uid": _TEXT,
        "groups": _TEXTS,
        "extra": Node(type="object", additional=_TEXTS),
    },
)
"""Every field may be missing."""
