"""The store's records of the definitions and schemas its servers use; they protect against servers that are too old.

A record for each resource, at ``/oarlock/definitions/<plural>.<group>``: the versions that servers know, the storage
version, every version objects were ever stored in, and by which schemas (`SchemaHistory`). A server that knows none of
those versions could read nothing, and refuses to start. ``/oarlock/definitions`` itself says in which form the records
are: the first form was one document with all of them, which is read, and written in the new form by the first server
that records something.
Must not know: HTTP. See also: `live_resources`; `migration`, which rewrites old versions.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from oarlock.meta.kinds import GroupResource
from oarlock.registry.stored.form import after_prefix
from oarlock.registry.workers import Offload, at_once
from oarlock.schema.definition import ResourceDefinition, Schema, VersionDefinition
from oarlock.schema.drift import canonical, narrowings
from oarlock.storage.backend import KV, Backend, Rev

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
        """The kept schemas of a resource that `digests` don't name; to be read before those are recorded."""
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


FORM_KEY = "/oarlock/definitions"
PREFIX = FORM_KEY + "/"
FORM = msgspec.json.encode({"form": 2})
"""A program that only knows the first form refuses a store that has this, instead of forgetting what is recorded."""

FEW = 16
"""So many records are read one by one, more by reading all."""

PAGE = 500
"""How many records are read at once."""

AT_ONCE = 100
"""How many records are written at the same time: those share the store's batches."""

T = TypeVar("T")

Facts = dict[str, Any]
"""``kind``, ``storedAs``, ``storedVersions``, ``versions`` and ``schemas`` of a resource."""

_RECORD: msgspec.json.Decoder[Facts] = msgspec.json.Decoder(Facts)
_DOCUMENT: msgspec.json.Decoder[dict[str, Facts]] = msgspec.json.Decoder(dict[str, Facts])


class StoreTooNew(Exception):
    """The store holds objects this server can't read. The message is one line for the operator."""


class DefinitionRecord(NamedTuple):
    """What is recorded of a resource, and the revision of the record; 0 if it has none of its own yet."""

    facts: Facts
    rev: Rev


_NOTHING = DefinitionRecord({}, 0)


class DefinitionRecords:
    """The records of definitions in one store. `offload` runs steps that would block the event loop for long."""

    def __init__(self, backend: Backend, offload: Offload = at_once) -> None:
        self._backend = backend
        self._schemas = SchemaHistory(backend, offload)
        self._current = False
        """Whether the records are in this program's form. That stays so: a program of an older form refuses them."""

    async def check(self, definitions: Iterable[ResourceDefinition]) -> None:
        """Raise StoreTooNew if objects of `definitions` are stored in no version that these know."""
        wanted = list(definitions)
        known = await self._read(wanted)
        for definition in wanted:
            _updated(known[_name(definition)].facts, definition)

    async def record(self, definitions: Iterable[ResourceDefinition]) -> list[SchemaDrift]:
        """Record that this server serves `definitions`: one write for each that differs. Raises StoreTooNew.

        Returns what objects stored before may not fit any more.
        """
        drifts: dict[str, list[SchemaDrift]] = {}
        missing = list(definitions)
        while missing:
            await self._bring_up_to_date()
            known, lost = await self._read(missing), []
            for some in _portions(missing):
                today = await self._schemas.digests(some)
                changed = [
                    (definition, digests)
                    for definition, digests in zip(some, today, strict=True)
                    if not _is_recorded(known[_name(definition)].facts, definition, digests)
                ]
                done = await _all(
                    [
                        self._record(known[_name(definition)], definition, digests, drifts)
                        for definition, digests in changed
                    ]
                )
                lost += [definition for (definition, _), ok in zip(changed, done, strict=True) if not ok]
            missing = lost
        return [drift for some in drifts.values() for drift in some]

    async def _record(
        self,
        known: DefinitionRecord,
        definition: ResourceDefinition,
        today: Mapping[str, str],
        drifts: dict[str, list[SchemaDrift]],
    ) -> bool:
        """Record one, if anything differs; False if another was faster. Adds to `drifts`."""
        name, before = _name(definition), known.facts
        facts = _updated(before, definition)
        facts["schemas"], drifts[name] = await self._schemas.updated(definition, before.get("schemas", {}), today)
        return facts == before or await self._put_schemas(name, facts, known)

    async def _put_schemas(self, name: str, facts: Facts, known: DefinitionRecord) -> bool:
        """Write a record, and remove the schemas that it doesn't name any more."""
        named = {(version, digest) for version, some in facts["schemas"].items() for digest in some}
        before = {(version, digest) for version, some in known.facts.get("schemas", {}).items() for digest in some}
        unused = await self._schemas.unused(name, facts["schemas"]) if before - named else []
        done = await self._put(name, facts, known.rev)
        if done:
            await self._schemas.forget(unused)
        return done

    async def settle(self, definition: ResourceDefinition, since: Rev) -> bool:
        """Record that all stored objects fit the schemas of `definition`; False if the record is newer than `since`.

        Nothing is recorded while the server that was started last has another schema: it goes on writing by that.
        """
        known = await self.find(definition)
        (today,) = await self._schemas.digests([definition])
        recorded = known.facts.get("schemas", {})
        stored_as = definition.stored_as
        if known.rev != since or recorded.get(stored_as, [])[:1] != [today[stored_as]]:
            return False
        schemas = await self._schemas.settled(definition, recorded, today)
        if schemas == recorded:
            return True
        return await self._put_schemas(_name(definition), {**known.facts, "schemas": schemas}, known)

    async def all(self) -> dict[str, Facts]:
        """Every record, by the name of its resource: ``orders.shop.example.com``."""
        first = {} if self._current else _first_form((await self._backend.get(FORM_KEY))[0])
        records = {kv.key.removeprefix(PREFIX): _facts(kv) for kv in await self._everything()}
        return {name: _joined(first.get(name, {}), records.get(name, {})) for name in {**first, **records}}

    async def find(self, definition: ResourceDefinition) -> DefinitionRecord:
        """What is recorded of a resource; nothing, at revision 0, if it never was."""
        return (await self._read([definition]))[_name(definition)]

    async def shrink(self, definition: ResourceDefinition, since: Rev) -> bool:
        """Record that objects are stored in `definition.stored_as` only; False if the record is newer than `since`."""
        await self._bring_up_to_date()
        facts, rev = await self.find(definition)
        if rev != since:
            return False
        if not rev or facts.get("storedVersions") == [definition.stored_as]:
            return True
        schemas = {
            version: some for version, some in facts.get("schemas", {}).items() if version == definition.stored_as
        }
        shrunk = {**facts, "storedVersions": [definition.stored_as], "schemas": schemas}
        return await self._put_schemas(_name(definition), shrunk, DefinitionRecord(facts, rev))

    async def forget(self, resource: GroupResource) -> None:
        """Forget `resource`, of which nothing is stored any more: its name may be served in other versions next."""
        await self._bring_up_to_date()
        name = str(resource)
        kv, _ = await self._backend.get(PREFIX + name)
        if kv is not None:
            unused = await self._schemas.unused(name, {})
            if (await self._backend.delete(kv.key, expect=kv.mod_rev)).ok:
                await self._schemas.forget(unused)

    async def _put(self, name: str, facts: Facts, expect: Rev) -> bool:
        return (await self._backend.put(PREFIX + name, _encode(facts), expect=expect)).ok

    async def _read(self, definitions: Sequence[ResourceDefinition]) -> dict[str, DefinitionRecord]:
        """The records of `definitions`, by name."""
        first = {} if self._current else _first_form((await self._backend.get(FORM_KEY))[0])
        names = [_name(definition) for definition in definitions]
        found = {kv.key.removeprefix(PREFIX): kv for kv in await self._stored(names)}
        records = {name: DefinitionRecord(_facts(kv), kv.mod_rev) for name, kv in found.items()}
        known = {name: records.get(name, _NOTHING) for name in names}
        return {
            name: record._replace(facts=_joined(first.get(name, {}), record.facts)) for name, record in known.items()
        }

    async def _stored(self, names: Sequence[str]) -> list[KV]:
        if len(names) <= FEW:
            answers = [await self._backend.get(PREFIX + name) for name in names]
            return [kv for kv, _ in answers if kv is not None]
        return await self._everything()

    async def _everything(self) -> list[KV]:
        kvs: list[KV] = []
        start, more = PREFIX, True
        while more:
            page = await self._backend.list(start, after_prefix(PREFIX), limit=PAGE)
            kvs += page.kvs
            more = page.more
            if more:
                start = page.kvs[-1].key + "\0"
        return kvs

    async def _bring_up_to_date(self) -> None:
        """Write the records in this program's form: all of the first form's document, then the form."""
        while not self._current:
            kv, _ = await self._backend.get(FORM_KEY)
            for some in _portions([*_first_form(kv).items()]):
                await _all([self._take_over(name, facts) for name, facts in some])
            if kv is not None and kv.value == FORM:
                self._current = True
            else:
                result = await self._backend.put(FORM_KEY, FORM, expect=kv.mod_rev if kv is not None else 0)
                self._current = result.ok

    async def _take_over(self, name: str, facts: Facts) -> None:
        done = False
        while not done:
            kv, _ = await self._backend.get(PREFIX + name)
            known = _facts(kv) if kv is not None else {}
            joined = _joined(facts, known)
            done = joined == known or await self._put(name, joined, kv.mod_rev if kv is not None else 0)


async def _all(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all calls, which run at the same time; a single one needs no task of its own."""
    return [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)


def _portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]


def _name(definition: ResourceDefinition) -> str:
    return str(definition.group_resource)


def _joined(older: Facts, newer: Facts) -> Facts:
    """What two records say of one resource."""
    if not older or not newer:
        return newer or older
    written = {*older.get("storedVersions", ()), *newer.get("storedVersions", ())}
    return {**older, **newer, "storedVersions": sorted(written)}


def _updated(before: Mapping[str, Any], definition: ResourceDefinition) -> Facts:
    known = {version.name for version in definition.versions}
    written = set(before.get("storedVersions", ()))
    if written and not written & known:
        raise StoreTooNew(
            f"the store holds {definition.group_resource} written as {', '.join(sorted(written))}, and this server "
            f"knows only {', '.join(sorted(known))}: start a server that knows one of the former, or use another store"
        )
    return {
        "kind": definition.names.kind,
        "storedAs": definition.stored_as,
        "storedVersions": sorted(written | {definition.stored_as}),
        "versions": sorted(known),
    }


def _is_recorded(facts: Facts, definition: ResourceDefinition, today: Mapping[str, str]) -> bool:
    """Whether everything is recorded, and by no other schemas than today's."""
    recorded = facts.get("schemas", {})
    if not all(some == [today.get(version)] for version, some in recorded.items()):
        return False
    return definition.stored_as in recorded and {**_updated(facts, definition), "schemas": recorded} == facts


def _first_form(kv: KV | None) -> dict[str, Facts]:
    """The records of the first form's document; none if they are in this program's form."""
    if kv is None or kv.value == FORM:
        return {}
    return _decoded(kv, _DOCUMENT)


def _facts(kv: KV) -> Facts:
    return _decoded(kv, _RECORD)


def _decoded(kv: KV, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(kv.value)
    except msgspec.DecodeError as error:
        why = f"the store's record {kv.key} can't be read ({error}): it was made by another program"
        raise StoreTooNew(why) from None
