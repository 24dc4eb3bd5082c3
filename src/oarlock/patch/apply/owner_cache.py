"""A cache of ownership results: the same change to objects with the same owners has the same result.

Controllers create objects of one shape and change the same few fields repeatedly, so the results of set operations are
mostly known. Only the lookup key is computed each time: the comparison of the two objects.
Must not know: values, entries, times. See also: `tracking`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from oarlock.meta.memo import Memo
from oarlock.patch.apply.compare import Comparison
from oarlock.patch.apply.fieldsets import FieldsV1
from oarlock.patch.apply.managers import ManagerId
from oarlock.patch.apply.updater import Owned

__all__ = ["OwnerCache", "Owners"]

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

    __slots__ = ("_results",)

    def __init__(self) -> None:
        self._results: Memo[tuple[Any, ...], tuple[tuple[Owned, ...], Owners]] = Memo(
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

    def get(self, key: MemoKey) -> Owners | None:
        """The result under a key that was just made."""
        cached = self._results.get(key) if key is not None else None
        return cached[1] if cached is not None else None

    def put(self, key: MemoKey, owned: Mapping[ManagerId, Owned], outcome: Owners) -> None:
        """Cache a result. Keeps `owned` alive too, because the key contains its id."""
        if key is not None:
            before = tuple(owned.values())
            sets = {id(owned.fields): owned.fields for owned in (*before, *outcome.owned.values())}
            size = len(key[0]) + _OBJECT_BYTES * len(before) + _held(sets.values())
            self._results.put(key, (before, outcome), size)


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
