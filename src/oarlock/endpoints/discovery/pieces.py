"""`DiscoveryPieces`: the JSON of resources and groups in discovery, encoded once, however many catalogs have them.

What is no longer served is forgotten by itself.
Must not know: whole documents. See also: `documents`, which joins them.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from oarlock.codec import json
from oarlock.endpoints.catalog import CatalogEntry, CatalogGroup
from oarlock.endpoints.discovery.aggregated import (
    api_group_discovery,
    api_resource_discovery,
    api_version_discovery,
)
from oarlock.endpoints.discovery.legacy import api_resources

__all__ = ["DiscoveryPieces", "GroupPiece"]

_encode = msgspec.json.Encoder().encode


class GroupPiece(NamedTuple):
    """A group in aggregated discovery, and its digest."""

    json: msgspec.Raw
    digest: bytes


class _EntryPiece(NamedTuple):
    """A resource in aggregated discovery; and with its subresources in the list of its version."""

    aggregated: msgspec.Raw
    listed: tuple[msgspec.Raw, ...]


class DiscoveryPieces:
    """The pieces of all catalogs of a server."""

    def __init__(self) -> None:
        self._entries: WeakKeyDictionary[CatalogEntry, _EntryPiece] = WeakKeyDictionary()
        self._groups: WeakKeyDictionary[CatalogGroup, GroupPiece] = WeakKeyDictionary()

    def group(self, group: CatalogGroup) -> GroupPiece:
        """The group in aggregated discovery."""
        found = self._groups.get(group)
        if found is None:
            versions = [self._version(group, version) for version in group.versions]
            data = _encode(api_group_discovery(group.name, versions))
            found = self._groups[group] = GroupPiece(msgspec.Raw(data), hashlib.sha512(data).digest())
        return found

    def listed(self, group: CatalogGroup, version: str) -> list[msgspec.Raw]:
        """The resources of a version that is served here, sorted by name, each with its subresources behind it.

        Those are sorted too, but of custom resources the status is the first.
        """
        entries = sorted(group.of_version(version), key=lambda entry: entry.definition.names.plural)
        return [piece for entry in entries for piece in self._entry(entry).listed]

    def _version(self, group: CatalogGroup, version: str) -> Any:
        proxied = group.proxied.get(version)
        if proxied is not None:
            return _piece(proxied.documents.discovery())
        resources = [self._entry(entry).aggregated for entry in group.of_version(version)]
        return api_version_discovery(version, resources)

    def _entry(self, entry: CatalogEntry) -> _EntryPiece:
        found = self._entries.get(entry)
        if found is None:
            listed = tuple(_piece(tree) for tree in api_resources(entry))
            found = self._entries[entry] = _EntryPiece(_piece(api_resource_discovery(entry)), listed)
        return found


def _piece(tree: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(json.encode(tree))
