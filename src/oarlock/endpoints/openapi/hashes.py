"""`DocumentHashes`: the hashes of OpenAPI documents, made of the definitions' digests, without rendering anything.

The digest of a resource and the hashes of a group are computed once, however many catalogs they are in; those of what
is no longer served are forgotten by themselves.
Must not know: how a document looks. See also: `parts`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from weakref import WeakKeyDictionary

import msgspec

from oarlock.endpoints.catalog import Catalog, CatalogEntry, CatalogGroup
from oarlock.endpoints.openapi.documents_v2 import shared_names
from oarlock.endpoints.openapi.documents_v3 import Info
from oarlock.endpoints.openapi.operations import root_of
from oarlock.endpoints.openapi.shared_types import is_published
from oarlock.schema.released.published import PublishedTypes

__all__ = ["DocumentHashes"]

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
