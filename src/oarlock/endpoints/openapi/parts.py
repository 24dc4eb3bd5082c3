"""Parts of OpenAPI documents: the paths and schemas of one group and version, in one OpenAPI version and encoding.

A v3 document is one part, the v2 document is all of them. A part is made of smaller ones, one for each resource, which
are taken over from the part that it replaces; all of it stays in pieces, so that no step on a large document takes
long. `DocumentHashes` are made of the definitions' digests, without rendering anything; `RenderedParts` keeps what was
rendered, bounded in bytes.
Must not know: requests. See also: `documents`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from oarlock.endpoints.catalog import Catalog, CatalogEntry, CatalogGroup
from oarlock.endpoints.openapi import elsewhere
from oarlock.endpoints.openapi.documents_v2 import entry_v2, own_v2, shared_names, shared_parameters, shared_v2
from oarlock.endpoints.openapi.documents_v3 import Info, entries_of, entry_v3, own_path, own_v3, shared_v3
from oarlock.endpoints.openapi.kinds import ambiguous_names, is_published
from oarlock.endpoints.openapi.operations import root_of
from oarlock.endpoints.openapi.protobuf import OPENAPI_V2, OPENAPI_V3
from oarlock.meta.json_trees import Tree
from oarlock.meta.memo import RecentlyUsed
from oarlock.schema.released.published import PublishedTypes

_encode = msgspec.json.Encoder().encode


class DocumentHashes:
    """The hashes of all catalogs of a server. Its methods may be called in any thread.

    `types` are those of Kubernetes' own kinds, if any are served.
    """

    def __init__(self, info: Info, types: PublishedTypes | None = None) -> None:
        self._info = info
        self.types = types
        self._entries: WeakKeyDictionary[CatalogEntry, bytes] = WeakKeyDictionary()
        self._groups: WeakKeyDictionary[CatalogGroup, Mapping[str, str]] = WeakKeyDictionary()

    def of(self, catalog: Catalog) -> dict[str, str]:
        """The hash of every document, by its name, sorted."""
        hashes = {name: self._hash(name) for name in ("apis", "version")}
        for group in catalog.in_order():
            known = self._groups.get(group)
            if known is None:
                known = self._groups[group] = dict(self._of_group(group))
            hashes.update(known)
        last = hashes.pop("version")
        return {**dict(sorted(hashes.items())), "version": last}

    def of_shared(self, catalog: Catalog) -> str:
        """The hash of the schemas that all groups share."""
        versions = [(group.name, group.versions) for group in catalog.in_order()]
        release = "" if self.types is None else self.types.version
        return self._hash("", _encode([versions, release, shared_names(catalog, self.types)]))

    def digest(self, entry: CatalogEntry) -> bytes:
        """The digest of all that documents show of a resource."""
        found = self._entries.get(entry)
        if found is None:
            version, types = entry.version, self.types
            if types is not None and is_published(entry, types):  # the release says what the schema is
                version = replace(version, schema={"release": types.version}, nested={})
            else:
                version = replace(version, nested=dict(version.nested))
            shown = replace(entry.definition, versions=(version,))
            facts = _encode([shown, entry.verbs, self._info.patch_types(entry.served)])
            found = self._entries[entry] = hashlib.sha512(facts).digest()
        return found

    def _of_group(self, group: CatalogGroup) -> Iterator[tuple[str, str]]:
        root = root_of(group.name)[1:]
        yield root, self._hash(root)
        for version in group.versions:
            name = f"{root}/{version}"
            proxied = group.proxied.get(version)
            if proxied is not None:
                yield name, proxied.documents.openapi_hash()
            else:
                yield name, self._hash(name, *map(self.digest, group.of_version(version)))

    def _hash(self, name: str, *facts: bytes) -> str:
        info = self._info
        made = hashlib.sha512(_encode([info.program, info.title, info.version, name]))
        for fact in facts:
            made.update(fact)
        return made.hexdigest().upper()


SHARED = ""
"""The v2 part with the types that all groups share; v3 documents contain those they need."""

ELSEWHERE = "/elsewhere"
"""The v2 part of what other servers serve."""

Pieces = tuple[bytes, ...]
Dialect = str
"""``v2`` or ``v3``."""

DocumentForm = tuple[Dialect, bool]
"""A dialect, in JSON or (True) in protobuf."""

Members = list[tuple[str, bytes]]
"""The members of an object, each encoded with its name."""


class EntryPart(NamedTuple):
    """The paths and schemas of a resource, and the names of the shared schemas they refer to."""

    paths: Members
    schemas: Members
    shared: frozenset[str] = frozenset()


class Part(NamedTuple):
    """A rendered part, with `hash`. `entries` are the smaller ones, by the digest of what they are made of."""

    hash: str
    paths: Pieces
    schemas: Pieces
    entries: Mapping[bytes, EntryPart]

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(map(len, self.paths)) + sum(map(len, self.schemas))


class Renderer:
    """Renders parts of one catalog in one form."""

    def __init__(self, catalog: Catalog, info: Info, hashes: DocumentHashes, form: DocumentForm) -> None:
        self._catalog = catalog
        self._info = info
        self._hashes = hashes
        self._types = hashes.types
        self._dialect, self._in_protobuf = form
        self._write = _WRITERS[self._dialect] if self._in_protobuf else (_members, _members)

    def parts(
        self, stale: Iterable[tuple[str, Part | None]], hashes: Mapping[str, str]
    ) -> list[tuple[str, Part | None]]:
        """Parts by name, with these hashes, in place of what was rendered of them before."""
        return [(name, self.part(name, hashes[name], before)) for name, before in stale]

    def part(self, name: str, current: str, before: Part | None) -> Part | None:
        """The part called `name`, whose hash is `current`; None if there is none. `before` is the one it replaces."""
        if name == SHARED:
            return Part(current, (), self._joined(self._schemas(shared_v2(self._catalog, self._types))), {})
        path = own_path(self._catalog, name)
        if path is None:
            return None
        known = before.entries if before is not None else {}
        entries: dict[bytes, EntryPart] = {}
        found = entries_of(self._catalog, name)
        ambiguous = ambiguous_names(found, self._types)
        mark = " ".join(sorted(ambiguous)).encode()  # by which types of unchanged resources may have other names
        for entry in found:
            digest = self._hashes.digest(entry) + mark
            entries[digest] = known.get(digest) or self._entry(entry, ambiguous)
        paths, shared = self._own(path)
        schemas: dict[str, bytes] = {}
        for part in entries.values():
            paths += part.paths
            schemas.update(part.schemas)  # several may have the same class inside
            shared |= part.shared
        if self._dialect == "v3":
            schemas.update(self._schemas(shared_v3(self._catalog, name, shared, self._types)))
        return Part(current, self._joined(paths), self._joined(schemas.items()), entries)

    def _own(self, path: Any) -> tuple[Members, set[str]]:
        if self._dialect == "v2":
            return self._paths(own_v2(path)), set()
        written, shared = own_v3(path)
        return self._paths(written), set(shared)

    def _entry(self, entry: CatalogEntry, ambiguous: frozenset[str]) -> EntryPart:
        if self._dialect == "v2":
            paths, schemas = entry_v2(entry, self._info, self._types, ambiguous)
            return EntryPart(self._paths(paths), self._schemas(schemas))
        paths, schemas, shared = entry_v3(entry, self._info, self._types, ambiguous)
        return EntryPart(self._paths(paths), self._schemas(schemas), shared)

    def _paths(self, tree: Tree) -> Members:
        return list(zip(tree, self._write[0](tree), strict=True))

    def _schemas(self, tree: Tree) -> Members:
        return list(zip(tree, self._write[1](tree), strict=True))

    def _joined(self, members: Iterable[tuple[str, bytes]]) -> Pieces:
        return _joined(members, self._in_protobuf)


def _joined(members: Iterable[tuple[str, bytes]], in_protobuf: bool) -> Pieces:
    """The members sorted by name; in JSON with commas between them."""
    pieces = [piece for _, piece in sorted(members, key=itemgetter(0))]
    if in_protobuf or not pieces:
        return tuple(pieces)
    between = [b","] * (2 * len(pieces) - 1)
    between[::2] = pieces
    return tuple(between)


def merged_part(current: str, form: DocumentForm, own: Iterable[Pieces], documents: Iterable[bytes]) -> Part:
    """The v2 part, with the hash `current`, of the `documents` of other servers. `own` are all our schemas in JSON."""
    known = {piece.partition(b'":')[0][1:]: piece for pieces in own for piece in pieces if piece != b","}

    def schema(name: str) -> Tree | None:
        piece = known.get(name.encode())
        return None if piece is None else msgspec.json.decode(b"{%b}" % piece)[name]

    paths, schemas = elsewhere.merged(schema, documents)
    write = _WRITERS["v2"] if form[1] else (_members, _members)
    written = [
        _joined(list(_writable(part, tree)), form[1]) for part, tree in zip(write, (paths, schemas), strict=True)
    ]
    return Part(current, written[0], written[1], {})


def _writable(write: _Write, tree: Tree) -> Iterator[tuple[str, bytes]]:
    """The members of a tree; those that aren't what they should be are left out, as other servers wrote them."""
    for name, value in tree.items():
        try:
            yield name, b"".join(write({name: value}))
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error):
            continue


_Write = Callable[[Tree], Iterable[bytes]]
_MESSAGES = {"v2": OPENAPI_V2, "v3": OPENAPI_V3}
_WRITERS: dict[Dialect, tuple[_Write, _Write]] = {
    dialect: (messages.paths, messages.schemas) for dialect, messages in _MESSAGES.items()
}


def _members(tree: Tree) -> Iterator[bytes]:
    """The members of a JSON object, without the commas between them."""
    for key, value in tree.items():
        yield _encode(key) + b":" + _encode(value)


def whole(parts: Iterable[Part], info: Info, form: DocumentForm) -> Pieces:
    """The document of these parts."""
    dialect, in_protobuf = form
    all_paths = [part.paths for part in parts if part.paths]
    all_schemas = [part.schemas for part in parts if part.schemas]
    if in_protobuf:
        messages = _MESSAGES[dialect]
        document = messages.whole(info.tree(), _flat(all_paths, b""), _flat(all_schemas, b""))
        return (*document, messages.parameters(shared_parameters())) if dialect == "v2" else tuple(document)
    before, between = _FRAMES[dialect]
    after = b'},"parameters":%b}' % _encode(shared_parameters()) if dialect == "v2" else b"}}}"
    head = before % _encode(info.tree())
    return (head, *_flat(all_paths, b","), between, *_flat(all_schemas, b","), after)


_FRAMES = {
    "v2": (b'{"swagger":"2.0","info":%s,"paths":{', b'},"definitions":{'),
    "v3": (b'{"openapi":"3.0.0","info":%s,"paths":{', b'},"components":{"schemas":{'),
}


def _flat(many: list[Pieces], between: bytes) -> list[bytes]:
    flat: list[bytes] = []
    for pieces in many:
        if flat and between:
            flat.append(between)
        flat += pieces
    return flat


PARTS_BYTES = 256 * 1024 * 1024
"""The most bytes of rendered parts that are kept: those of about 7,000 resources in one form."""


class RenderedParts(RecentlyUsed[tuple[DocumentForm, str], Part]):
    """The rendered parts of a server, by form and name."""

    __slots__ = ()

    def __init__(self, limit_bytes: int = PARTS_BYTES) -> None:
        super().__init__(limit_bytes, lambda part: part.size)
