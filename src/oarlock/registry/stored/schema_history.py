"""`SchemaHistory`: the schemas by which stored objects were written, and what of them today's schema refuses.

The record of a resource lists digests of schemas for each stored version, the latest first; the schemas themselves are
at ``/oarlock/schemas/<plural>.<group>/<version>/<digest>``, compressed, without descriptions. A schema is forgotten
once today's takes all that it took, or once every stored object was found to fit.
Must not know: the other facts of a record. See also: `records`, which keeps the digests; ``schema.drift``, which
compares.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from oarlock.meta.kinds import GroupResource
from oarlock.registry.stored.keys import after_prefix
from oarlock.registry.workers import Offload, at_once
from oarlock.schema.definition import ResourceDefinition, Schema, VersionDefinition
from oarlock.schema.drift.canonical import canonical
from oarlock.schema.drift.compare import narrowings
from oarlock.storage.backend import Backend, Rev

__all__ = ["SCHEMAS", "Digests", "SchemaDrift", "SchemaHistory", "digests_of"]

SCHEMAS = "/oarlock/schemas/"

Digests = dict[str, list[str]]
"""By version: digests of the schemas that objects were written by, the latest first."""

KEPT = 8
"""The most schemas of a version that are kept; for older ones there is `UNKNOWN`."""

UNKNOWN = ""
"""The digest of schemas that nobody knows any more."""

RELEASED = "release-"
"""What the digest of a released schema begins with. None of those is kept, as the next takes all that it took."""

LARGEST_BYTES = 1024 * 1024
"""A schema that is larger when compressed isn't kept, and counts as unknown."""

UNREADABLE = "isn't a version of this server any more: what is stored in it can't be read"

LARGEST_READ_BYTES = 32 * 1024 * 1024

MOST = 50
"""How many changes are found in one version at most."""

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(Schema).decode


class SchemaDrift(NamedTuple):
    """What objects stored in `version` may not fit any more, a text for each change."""

    resource: GroupResource
    version: str
    changes: tuple[str, ...]


class _SchemaPlace(NamedTuple):
    """Where a schema is stored."""

    resource: str
    version: str
    digest: str

    @property
    def key(self) -> str:
        return SCHEMAS + "/".join(self)


class _Kept(NamedTuple):
    """A stored schema: its key and the revision of it."""

    key: str
    rev: Rev


def digests_of(definitions: Iterable[ResourceDefinition]) -> list[dict[str, str]]:
    """For each definition, the digests of its versions' schemas as they are; of a released one, its release."""
    return [
        {version.name: f"{RELEASED}{definition.released}" for version in definition.versions}
        if definition.released
        else {
            version.name: hashlib.blake2b(_encode(version.schema), digest_size=12).hexdigest()
            for version in definition.versions
        }
        for definition in definitions
    ]


class SchemaHistory:
    """The schemas in one store. `offload` runs comparisons, which may take milliseconds each."""

    def __init__(self, backend: Backend, offload: Offload = at_once) -> None:
        self._backend = backend
        self._offload = offload

    async def digests(self, definitions: Sequence[ResourceDefinition]) -> list[dict[str, str]]:
        """`digests_of`, beside the event loop."""
        return await self._offload(digests_of, definitions)

    async def updated(
        self, definition: ResourceDefinition, recorded: Digests, today: Mapping[str, str]
    ) -> tuple[Digests, list[SchemaDrift]]:
        """The digests to record when `definition` is served, and what has drifted. Keeps today's schema."""
        name = str(definition.group_resource)
        digests: Digests = {}
        drifts: list[SchemaDrift] = []
        for version in definition.versions:
            before, latest = recorded.get(version.name, []), today[version.name]
            if not before and version.name != definition.stored_as:
                continue
            if definition.released:
                digests[version.name] = [latest]
                continue
            if latest not in before:
                await self._keep(_SchemaPlace(name, version.name, latest), version)
            narrower: list[str] = []
            changes: dict[str, None] = {}
            for digest in before:
                place = _SchemaPlace(name, version.name, digest)
                found = [] if digest == latest else await self._changes(place, version)
                narrower += [digest] if found else []
                changes.update(dict.fromkeys(found))
            if changes:
                drifts.append(SchemaDrift(definition.group_resource, version.name, tuple(changes)))
            digests[version.name] = _bounded([latest, *narrower])
        for version_name in recorded.keys() - today.keys():
            digests[version_name] = recorded[version_name]
            drifts.append(SchemaDrift(definition.group_resource, version_name, (UNREADABLE,)))
        return digests, drifts

    async def settled(self, definition: ResourceDefinition, recorded: Digests, today: Mapping[str, str]) -> Digests:
        """The digests to record once every stored object was found to fit today's schemas. Keeps those."""
        name = str(definition.group_resource)
        digests = {version: [today[version]] for version in recorded if version in today}
        for version, (digest,) in digests.items():
            if digest not in recorded[version] and not definition.released:
                await self._keep(_SchemaPlace(name, version, digest), definition.version(version))
        return digests

    async def unused(self, name: str, digests: Digests) -> list[_Kept]:
        """The kept schemas of a resource that `digests` don't name; to be asked before those are recorded."""
        prefix = f"{SCHEMAS}{name}/"
        page = await self._backend.list(prefix, after_prefix(prefix))
        used = {prefix + f"{version}/{digest}" for version, some in digests.items() for digest in some}
        return [_Kept(kv.key, kv.mod_rev) for kv in page.kvs if kv.key not in used]

    async def forget(self, unused: Iterable[_Kept]) -> None:
        """Remove schemas, unless another server has kept them again since."""
        for key, rev in unused:
            await self._backend.delete(key, expect=rev)

    async def _changes(self, place: _SchemaPlace, version: VersionDefinition) -> list[str]:
        old = await self._read(place)
        if old is None:
            return ["some were stored by a schema that isn't known any more"]
        return await self._offload(_compared, old, version)

    async def _read(self, place: _SchemaPlace) -> Schema | None:
        kv, _ = await self._backend.get(place.key) if place.digest else (None, 0)
        if kv is None:
            return None
        try:
            unpacker = zlib.decompressobj()
            return _decode(unpacker.decompress(kv.value, LARGEST_READ_BYTES))
        except (zlib.error, msgspec.DecodeError):
            return None

    async def _keep(self, place: _SchemaPlace, version: VersionDefinition) -> None:
        """Write it even if it is there: who is about to forget it then doesn't."""
        key, value = place.key, await self._offload(_packed, version)
        if len(value) > LARGEST_BYTES:
            return
        result = await self._backend.put(key, value, expect=0)
        while not result.ok:
            result = await self._backend.put(key, value, expect=result.current.mod_rev if result.current else 0)


def _packed(version: VersionDefinition) -> bytes:
    return zlib.compress(_encode(canonical(version.schema)))


def _compared(old: Schema, version: VersionDefinition) -> list[str]:
    return [str(narrowing) for narrowing in islice(narrowings(old, canonical(version.schema)), MOST)]


def _bounded(digests: list[str]) -> list[str]:
    known = [digest for digest in dict.fromkeys(digests) if digest != UNKNOWN]
    return known if known == digests and len(known) <= KEPT else [*known[:KEPT], UNKNOWN]
