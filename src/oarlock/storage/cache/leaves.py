"""A sorted list of entries with cheap snapshots: two levels of lists, copied on write.

`Leaves` is the one mutable tree of a resource; `Root` is a snapshot of it, taken in constant time. A change
copies the list of leaves and one leaf only if a root was taken since they were last copied: a resource
that nobody lists is changed in place, and a batch of changes copies a leaf once.

The bounds between leaves are separators, not first keys: leaf `i` holds keys in ``bounds[i] <= key < bounds[i+1]``,
so adding and removing keys moves none of them. Keys compare as Python strings, which is the byte order of UTF-8.

Must not know: revisions of the store, events. See also: `snapshot`, what others are given.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from oarlock.storage.cache.entry import Entry

__all__ = [
    "INDEXED_COLUMNS",
    "LEAF_MAX",
    "SELECTED_ENTRIES",
    "SELECTIONS",
    "HasBody",
    "Leaf",
    "LeafColumn",
    "Leaves",
    "Measure",
    "Root",
    "measure",
]

LEAF_MAX = 256
"""Entries in a leaf before it is split. At 100,000 objects 64 to 512 cost the same for an update in place; with a
snapshot between all updates, 256 copies least: 10 µs against 17 at 64 (``benchmarks/cache_update.py``)."""

_key = attrgetter("key")


class Measure(NamedTuple):
    """The total size of the bodies of some entries, and the largest size, in bytes."""

    size: int
    largest: int


LeafColumn = str | int
"""What entries are indexed by: the label of that key, or the value at that place of `Entry.fields`."""

INDEXED_COLUMNS = 2
"""How many columns a leaf has an index for. An index takes at most 200 bytes per entry, when no two entries have the
same value; 10 where many have."""


SELECTIONS = 4
"""How many selections of its entries a root remembers."""

SELECTED_ENTRIES = 1024
"""A selection of more entries isn't remembered; one entry takes 8 bytes."""


class Leaf(list[Entry]):
    """Entries in key order. What is derived from them, `measure_cache` and the indices, is cached until they change.

    So is `derived`, which belongs to who reads the leaf. A leaf of a `Root` never changes.
    """

    __slots__ = ("_indices", "derived", "measure_cache")

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__(entries)
        self.measure_cache: Measure | None = None
        self.derived: object = None
        self._indices: dict[LeafColumn, dict[str, list[Entry]] | None] | None = None

    def changed(self) -> None:
        """Forget what was derived from the entries."""
        self.measure_cache = None
        self.derived = None
        self._indices = None

    def having(self, column: LeafColumn, value: str) -> Sequence[Entry]:
        """The entries with this value in a column, which mustn't be changed. They must not be completed later any more.

        The second time that a column is asked for, an index of it is made: a leaf that changes between any two
        questions pays for none.
        """
        indices = self._indices
        if indices is None:
            indices = self._indices = {}
        elif column in indices:
            index = indices[column]
            if index is None:
                index = indices[column] = self._indexed(column)
            return index.get(value, ())
        elif len(indices) >= INDEXED_COLUMNS:
            del indices[next(iter(indices))]
        indices[column] = None
        if isinstance(column, str):
            return [entry for entry in self if entry.labels.get(column) == value]
        return [entry for entry in self if entry.fields[column] == value]

    def _indexed(self, column: LeafColumn) -> dict[str, list[Entry]]:
        index: dict[str, list[Entry]] = {}
        for entry in self:
            value = entry.labels.get(column) if isinstance(column, str) else entry.fields[column]
            if value is None:
                continue
            known = index.get(value)
            if known is None:
                index[value] = [entry]
            else:
                known.append(entry)
        return index


class HasBody(Protocol):
    """Something with a body, such as an entry."""

    @property
    def body(self) -> bytes: ...


def measure(entries: Sequence[HasBody]) -> Measure:
    """The measure of `entries`; for a whole leaf it is cached."""
    total = entries.measure_cache if isinstance(entries, Leaf) else None
    if total is None:
        sizes = [len(entry.body) for entry in entries]
        total = Measure(sum(sizes), max(sizes, default=0))
        if isinstance(entries, Leaf):
            entries.measure_cache = total
    return total


class Root:
    """A snapshot: two parallel lists that are never changed, and what was selected of it lately."""

    __slots__ = ("_selected", "bounds", "leaves", "size")

    def __init__(self, bounds: list[str], leaves: list[Leaf], size: int) -> None:
        self.bounds = bounds
        self.leaves = leaves
        self.size = size
        self._selected: dict[Hashable, Leaf] | None = {}  # None: nothing is remembered any more

    def selected(self, by: Hashable) -> Leaf | None:
        """What was remembered as selected by `by`, if it still is."""
        return None if self._selected is None else self._selected.get(by)

    def remember(self, by: Hashable, entries: Sequence[Entry]) -> Leaf:
        """The entries that `by` selects, and will select: they mustn't be completed later any more."""
        chosen = Leaf(entries)
        known = self._selected
        if known is not None and len(chosen) <= SELECTED_ENTRIES:
            if len(known) >= SELECTIONS and by not in known:
                del known[next(iter(known))]
            known[by] = chosen
        return chosen

    def forget_selected(self) -> None:
        """The snapshot isn't the current state any more, and is rarely read again."""
        self._selected = None

    def locate(self, key: str) -> tuple[int, int]:
        """The position of `key`, or where it would be inserted: the leaf and the index in it."""
        leaf = bisect_right(self.bounds, key) - 1
        return leaf, bisect_left(self.leaves[leaf], key, key=_key)


class Leaves:
    """The mutable tree."""

    __slots__ = ("_bounds", "_leaves", "_own", "_root", "size")

    def __init__(self, root: Root) -> None:
        self._bounds = root.bounds
        self._leaves = root.leaves
        self._own = bytearray(len(root.leaves))
        self._root: Root | None = root
        self.size = root.size

    @classmethod
    def build(cls, entries: Sequence[Entry]) -> Leaves:
        """A tree of `entries`, which are in key order. Leaves are three quarters full."""
        fill = LEAF_MAX * 3 // 4
        leaves = [Leaf(entries[i : i + fill]) for i in range(0, len(entries), fill)] or [Leaf(())]
        bounds = [leaf[0].key if leaf else "" for leaf in leaves]
        bounds[0] = ""
        return cls(Root(bounds, leaves, len(entries)))

    def freeze(self) -> Root:
        """A snapshot of the current state, in constant time. The next change copies what it touches."""
        if self._root is None:
            self._root = Root(self._bounds, self._leaves, self.size)
        return self._root

    def put(self, entry: Entry) -> None:
        """Add the entry, or replace the one under the same key."""
        key = entry.key
        leaf, at = self._writable(key)
        j = bisect_left(leaf, key, key=_key)
        if j < len(leaf) and leaf[j].key == key:
            leaf[j] = entry
            return
        leaf.insert(j, entry)
        self.size += 1
        if len(leaf) > LEAF_MAX:
            self._split(at, leaf)

    def remove(self, key: str) -> None:
        """Remove the key, if it exists."""
        leaf, at = self._writable(key)
        j = bisect_left(leaf, key, key=_key)
        if j < len(leaf) and leaf[j].key == key:
            del leaf[j]
            self.size -= 1
            if not leaf and at:
                del self._leaves[at], self._bounds[at], self._own[at]

    def _writable(self, key: str) -> tuple[Leaf, int]:
        if self._root is not None:
            self._root = None
            self._bounds = self._bounds.copy()
            self._leaves = self._leaves.copy()
            self._own = bytearray(len(self._leaves))
        at = bisect_right(self._bounds, key) - 1
        if self._own[at]:
            leaf = self._leaves[at]
            leaf.changed()
            return leaf, at
        self._own[at] = 1
        leaf = self._leaves[at] = Leaf(self._leaves[at])
        return leaf, at

    def _split(self, at: int, leaf: Leaf) -> None:
        # After a key at the end, more usually follow: split so that the full leaf stays nearly full.
        middle = LEAF_MAX * 7 // 8 if at == len(self._leaves) - 1 else LEAF_MAX // 2
        right = Leaf(leaf[middle:])
        del leaf[middle:]
        self._leaves.insert(at + 1, right)
        self._bounds.insert(at + 1, right[0].key)
        self._own.insert(at + 1, 1)
