"""How ownership came out, remembered: the same change to objects that are owned alike ends alike.

Controllers make objects of one shape and change the same few fields again and again, so what sets of fields come
to is mostly known. Only what is there to be looked up is made each time: how two objects compare.
Must not know: values, entries, times. Next: `tracking`, which asks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from oarlock.meta.memo import Memo
from oarlock.patch.apply.compare import Comparison
from oarlock.patch.apply.fieldsets import Fields
from oarlock.patch.apply.managers import ManagerId
from oarlock.patch.apply.updater import Owned

__all__ = ["Settled", "SettledOwners"]

_encode = msgspec.json.Encoder().encode

SETTLED_BYTES = 8 * 1024 * 1024
"""How much is remembered of one resource."""

_LONGEST = 256 * 1024
_OBJECT_BYTES = 300
_FIELD_BYTES = 120

Key = tuple[Any, ...] | None
"""The text of a change, who made it, and who owned what."""


class SettledOwners(NamedTuple):
    """Who owns what after a change; `wrote` is the entry of who made it, None when it owns nothing of it."""

    owned: Mapping[ManagerId, Owned]
    wrote: ManagerId | None


class Settled:
    """What is remembered of one resource."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: Memo[tuple[Any, ...], tuple[tuple[Owned, ...], SettledOwners]] = Memo(
            SETTLED_BYTES, entry_bytes=1024, longest_bytes=_LONGEST
        )

    @staticmethod
    def key(change: Comparison | Fields, owned: Mapping[ManagerId, Owned], version: str, who: Hashable) -> Key:
        """What the outcome depends on; None when it isn't to be remembered.

        `change` is how two objects compare, or everything that is in a new one. The outcome isn't remembered where
        somebody owns fields in another version than `version`: then the values count as well.
        """
        owners: list[Hashable] = [who]
        for identity, one in owned.items():
            if one.version != version:
                return None
            owners.append((identity, id(one)))
        return (_encode(change), *owners)

    def get(self, key: Key) -> SettledOwners | None:
        """What is remembered under a key that was just made."""
        found = self._known.get(key) if key is not None else None
        return found[1] if found is not None else None

    def put(self, key: Key, owned: Mapping[ManagerId, Owned], outcome: SettledOwners) -> None:
        """Remember an outcome. `owned` is kept too: an identity in the key is good while its owner lives."""
        if key is not None:
            before = tuple(owned.values())
            sets = {id(one.fields): one.fields for one in (*before, *outcome.owned.values())}
            size = len(key[0]) + _OBJECT_BYTES * len(before) + _held(sets.values())
            self._known.put(key, (before, outcome), size)


def _held(sets: Iterable[Fields]) -> int:
    """How many bytes these sets of fields take, counted no further than to what is too much."""
    size = 0
    todo = list(sets)
    while todo and size <= _LONGEST:
        fields = todo.pop()
        if fields:
            size += _OBJECT_BYTES + sum([_FIELD_BYTES + len(name) for name in fields])
            todo += fields.values()
    return size
