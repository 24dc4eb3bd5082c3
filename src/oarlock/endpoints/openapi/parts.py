"""Cacheable parts of OpenAPI documents.

A part has the paths and schemas of one group and version, in one OpenAPI version and encoding, as pieces of bytes, so
that no step on a large document takes long. A v3 document is one part, the v2 document is all of them. The hash of a
part is computed from the definitions, without rendering it. Pure functions.
Must not know: requests, what is cached. See also: `documents`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from oarlock.endpoints.catalog import CatalogIndex
from oarlock.endpoints.openapi.documents_v2 import part_v2
from oarlock.endpoints.openapi.documents_v3 import Info, entries_of, part_v3
from oarlock.endpoints.openapi.proto_v2 import paths_v2, schemas_v2, whole_v2
from oarlock.endpoints.openapi.proto_v3 import paths_v3, schemas_v3, whole_v3

__all__ = ["SHARED", "Dialect", "Part", "Pieces", "hash_of", "render", "whole"]

SHARED = ""
"""The v2 part with the types that all groups share; v3 documents contain those they need."""

Tree = dict[str, Any]
Pieces = tuple[bytes, ...]
Dialect = str
"""``v2`` or ``v3``."""

PIECE_BYTES = 64 * 1024

_encode = msgspec.json.Encoder().encode


class Part(NamedTuple):
    """A rendered part; `hash` is that of its definitions."""

    hash: str
    paths: Pieces
    schemas: Pieces


def hash_of(index: CatalogIndex, name: str, info: Info) -> str:
    """The hash of a part or v3 document: changes if it would look different."""
    made = hashlib.sha512(_encode([info.program, info.title, info.version, name]))
    for facts in _facts(index, name, info):
        made.update(_encode(facts))
    return made.hexdigest().upper()


def _facts(index: CatalogIndex, name: str, info: Info) -> Iterator[Any]:
    if name == SHARED:
        yield [(group.name, group.versions) for group in index.groups]
    for entry in entries_of(index, name) if name else ():
        yield entry.definition, entry.verbs, tuple(info.patch_types(entry.served))


def render(index: CatalogIndex, name: str, info: Info, form: tuple[Dialect, bool]) -> Part | None:
    """Render a part, in JSON or (True) in protobuf; None if there is none of that name."""
    dialect, in_protobuf = form
    found = (part_v2 if dialect == "v2" else part_v3)(index, name, info)
    if found is None:
        return None
    paths, schemas = found
    in_paths, in_schemas = _WRITERS[dialect] if in_protobuf else (_members, _members)
    return Part(hash_of(index, name, info), _packed(in_paths(paths)), _packed(in_schemas(schemas)))


_Write = Callable[[Tree], Iterable[bytes]]
_WRITERS: dict[Dialect, tuple[_Write, _Write]] = {"v2": (paths_v2, schemas_v2), "v3": (paths_v3, schemas_v3)}


def _members(tree: Tree) -> Iterator[bytes]:
    """The members of a JSON object, with the commas between them."""
    comma = b""
    for key, value in tree.items():
        yield comma + _encode(key) + b":" + _encode(value)
        comma = b","


def _packed(pieces: Iterable[bytes]) -> Pieces:
    """The same bytes in pieces of a suitable size."""
    made: list[bytes] = []
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            made.append(b"".join(waiting))
            waiting, size = [], 0
    if waiting:
        made.append(b"".join(waiting))
    return tuple(made)


def whole(parts: Iterable[Part], info: Info, form: tuple[Dialect, bool]) -> Pieces:
    """The document of these parts."""
    dialect, in_protobuf = form
    all_paths = [part.paths for part in parts if part.paths]
    all_schemas = [part.schemas for part in parts if part.schemas]
    if in_protobuf:
        write = whole_v2 if dialect == "v2" else whole_v3
        return tuple(write(info.tree(), _flat(all_paths, b""), _flat(all_schemas, b"")))
    before, between, after = _FRAMES[dialect]
    head = before % _encode(info.tree())
    return (head, *_flat(all_paths, b","), between, *_flat(all_schemas, b","), after)


_FRAMES = {
    "v2": (b'{"swagger":"2.0","info":%s,"paths":{', b'},"definitions":{', b"}}"),
    "v3": (b'{"openapi":"3.0.0","info":%s,"paths":{', b'},"components":{"schemas":{', b"}}}"),
}


def _flat(many: list[Pieces], between: bytes) -> list[bytes]:
    flat: list[bytes] = []
    for pieces in many:
        if flat and between:
            flat.append(between)
        flat += pieces
    return flat
