"""Decodes ``metadata.managedFields`` to a set of fields for each manager, and encodes it again.

An unchanged entry is written as it was read, as the same object. An `OwnerCache` knows the owners after changes that
were seen before: controllers create objects of one shape and change the same few fields repeatedly, so that only the
comparison of the two objects is computed each time.
See also: `tracking`. Must not know: who writes now. Source: meta/v1 ManagedFieldsEntry.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from oarlock.meta.go.gotext import quote
from oarlock.meta.memo import Memo
from oarlock.meta.times import parse_rfc3339, rfc3339
from oarlock.patch.apply.fieldsets import Comparison, FieldsV1, union, written
from oarlock.patch.apply.fieldsets import decode as decode_fields
from oarlock.patch.apply.updater import Owned
from oarlock.patch.errors import FieldsError, ManagedFieldsError

MAX_UPDATE_MANAGERS = 10
"""The oldest of more are merged into one entry per version. Appliers aren't limited."""

_ANCIENT = "ancient-changes"
_EPOCH = "1970-01-01T00:00:00Z"

ManagedFieldsEntry = dict[str, Any]
"""One item of managedFields, as JSON."""


class ManagerId(NamedTuple):
    """The owner of an entry.

    `operation` is Apply or Update. An applier is the same in every version (`api_version` "").
    """

    manager: str
    operation: str
    api_version: str
    subresource: str

    @classmethod
    def make(cls, manager: str, operation: str, api_version: str, subresource: str) -> ManagerId:
        return cls(manager, operation, "" if operation == "Apply" else api_version, subresource)

    def __str__(self) -> str:
        """The manager as conflicts name it: ``"m" with subresource "status" using apps/v1``."""
        text = quote(self.manager)
        if self.subresource:
            text += f" with subresource {quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


class LoadedManager(NamedTuple):
    """A decoded entry. `as_written` is set if encoding would give the same entry again. None: its version is gone."""

    owned: Owned | None
    as_written: bool


Load = Callable[[Any, str, bool], LoadedManager]
"""``load(fieldsV1, apiVersion, applied)``. Raises FieldsError."""


def load_plainly(fields: Any, api_version: str, applied: bool) -> LoadedManager:
    """A loader that takes the sets as they are, for every version."""
    decoded = decode_fields(fields)
    return LoadedManager(Owned(decoded, api_version, applied), decoded == fields)


class Managed(Struct, eq=False):
    """The managers with their fields, and the times of their entries."""

    owned: dict[ManagerId, Owned] = {}
    times: dict[ManagerId, str] = {}
    read: dict[ManagerId, tuple[Owned, ManagedFieldsEntry]] = {}
    """What an entry was read as, and the entry."""


def decode(entries: Any, load: Load = load_plainly) -> Managed:
    """Decode managedFields; None means none. Raises ManagedFieldsError, FieldsError."""
    managed = Managed()
    for position, entry in enumerate(entries or ()):
        if type(entry) is not dict:
            raise ManagedFieldsError(f"managed fields entry {position} is not an object")
        get = entry.get
        operation: Any = get("operation")
        api_version: Any = get("apiVersion")
        applied = operation == "Apply"
        if not applied and operation != "Update":
            raise ManagedFieldsError("operation must be `Apply` or `Update`")
        if not api_version or type(api_version) is not str:
            raise ManagedFieldsError("apiVersion must not be empty")
        if get("fieldsType") != "FieldsV1":
            raise ManagedFieldsError(_wrong_type(get("fieldsType"), position))
        manager, subresource, time, fields = get("manager", ""), get("subresource", ""), get("time"), get("fieldsV1")
        if type(manager) is not str or type(subresource) is not str:
            raise ManagedFieldsError(f"managed fields entry {position}: manager and subresource are strings")
        identity = ManagerId(manager, operation, "" if applied else api_version, subresource)
        try:
            owned, as_written = load({} if fields is None else fields, api_version, applied)
        except FieldsError as error:
            raise FieldsError(f"error decoding set: {error}") from None
        if owned is None:
            continue
        managed.owned[identity] = owned
        if time is not None:
            if type(time) is not str or len(time) >= 64:
                raise ManagedFieldsError(f"invalid time in managed fields entry {position}")
            try:
                managed.times[identity] = at = _in_utc(time)
            except ValueError:
                raise ManagedFieldsError(f"invalid time in managed fields entry {position}") from None
            as_written = as_written and at == time
        if as_written and fields is not None:
            managed.read[identity] = owned, entry
    return managed


def _wrong_type(kind: Any, position: int) -> str:
    if kind:
        return f"invalid fieldsType {quote(str(kind))} in managed fields entry {position}"
    return f"missing fieldsType in managed fields entry {position}"


@lru_cache(1024)
def _in_utc(time: str) -> str:
    return rfc3339(parse_rfc3339(time))


def encode(managed: Managed, live: list[ManagedFieldsEntry] | None = None) -> list[ManagedFieldsEntry]:
    """Encode managedFields: appliers first, then by time, name, version and subresource.

    The `live` list itself when nothing changed.
    """
    times, read = managed.times, managed.read
    ordered: list[tuple[Any, ManagedFieldsEntry]] = []
    order: Any = None
    for identity, owned in managed.owned.items():
        time = times.get(identity)
        if len(managed.owned) > 1:
            order = (identity.operation, time or _EPOCH, identity.manager, owned.version, identity.subresource)
        before = read.get(identity)
        if before is None or before[0] is not owned:
            ordered.append((order, _entry(identity, owned, time)))
        elif time and before[1].get("time") != time:
            ordered.append((order, {**before[1], "time": time}))
        else:
            ordered.append((order, before[1]))
    if len(ordered) > 1:
        ordered.sort(key=_ORDER)
    entries = [*map(_ENTRY, ordered)]
    return live if live is not None and entries == live else entries


_ORDER, _ENTRY = itemgetter(0), itemgetter(1)


def _entry(identity: ManagerId, owned: Owned, time: str | None) -> ManagedFieldsEntry:
    entry: ManagedFieldsEntry = {}
    if identity.manager:
        entry["manager"] = identity.manager
    entry["operation"] = identity.operation
    entry["apiVersion"] = owned.version
    if time:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = written(owned.fields)
    if identity.subresource:
        entry["subresource"] = identity.subresource
    return entry


def cap(managed: Managed) -> None:
    """Merge the oldest of more than `MAX_UPDATE_MANAGERS` Update entries into one for each version.

    Changes `managed`.
    """
    if len(managed.owned) <= MAX_UPDATE_MANAGERS:
        return
    updaters = [identity for identity, owned in managed.owned.items() if not owned.applied]
    too_many = len(updaters) - MAX_UPDATE_MANAGERS
    if too_many <= 0:
        return
    updaters.sort(key=lambda identity: (managed.times.get(identity, _EPOCH), identity))
    first_of: dict[str, ManagerId] = {}
    for identity in updaters:
        if too_many <= 0:
            return
        owned = managed.owned[identity]
        first = first_of.setdefault(owned.version, identity)
        if first is identity:
            continue
        bucket = ManagerId(_ANCIENT, "Update", owned.version, "")
        if bucket not in managed.owned:
            managed.owned[bucket] = managed.owned.pop(first)
        if bucket == identity:
            continue
        merged = union(owned.fields, managed.owned[bucket].fields)
        managed.owned[bucket] = Owned(merged, owned.version, applied=False)
        del managed.owned[identity]
        too_many -= 1
        if identity in managed.times:
            managed.times[bucket] = managed.times[identity]


_encode = msgspec.json.Encoder().encode

CACHE_BYTES = 8 * 1024 * 1024
"""How much is remembered of one resource."""

_LONGEST = 256 * 1024
_OBJECT_BYTES = 300
_FIELD_BYTES = 120

MemoKey = tuple[Any, ...] | None
"""The text of a change, who made it, and who owned what."""


class Owners(NamedTuple):
    """The owners after a change; `wrote` is the entry of the writer, None when it owns nothing."""

    owned: Mapping[ManagerId, Owned]
    wrote: ManagerId | None


class OwnerCache:
    """The owners after changes of one resource, by change and owners before."""

    __slots__ = ("results",)

    def __init__(self) -> None:
        self.results: Memo[tuple[Any, ...], tuple[tuple[Owned, ...], Owners]] = Memo(
            CACHE_BYTES, entry_bytes=1024, longest_bytes=_LONGEST
        )

    @staticmethod
    def key(change: Comparison | bytes, owned: Mapping[ManagerId, Owned], version: str, who: Hashable) -> MemoKey:
        """The cache key; None when the result must not be cached.

        `change` is the comparison of two objects, or the text of the set of everything in a new one. Results aren't
        cached when a manager owns fields in another version than `version`: then they depend on values too.
        """
        owners: list[Hashable] = [who]
        for identity, fields in owned.items():
            if fields.version != version:
                return None
            owners.append((identity, id(fields)))
        return (change if isinstance(change, bytes) else _encode(change), *owners)

    def put(self, key: MemoKey, owned: Mapping[ManagerId, Owned], outcome: Owners) -> None:
        """Cache a result. Keeps `owned` alive too, because the key contains its id."""
        if key is not None:
            before = tuple(owned.values())
            sets = {id(owned.fields): owned.fields for owned in (*before, *outcome.owned.values())}
            size = len(key[0]) + _OBJECT_BYTES * len(before) + _held(sets.values())
            self.results.put(key, (before, outcome), size)


def _held(sets: Iterable[FieldsV1]) -> int:
    """The size of these sets of fields in bytes; counting stops above the limit."""
    size = 0
    todo = list(sets)
    while todo and size <= _LONGEST:
        fields = todo.pop()
        if fields:
            size += _OBJECT_BYTES + sum([_FIELD_BYTES + len(name) for name in fields])
            todo += fields.values()
    return size
