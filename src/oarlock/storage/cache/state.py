"""The state of one resource: its live entries by key and in order, its event ring and its recorded past states.

One object, so that a reload can build another and replace it in one step. An event costs one `put` or `remove`;
everything else here is a read.

The order is a sorted list of entries with cheap snapshots: two levels of lists, copied on write. `Leaves` is the one
mutable tree of a resource; `Root` is a snapshot of it, taken in constant time. A change copies the list of leaves and
one leaf only if a root was taken since they were last copied: a resource that nobody lists is changed in place, and a
batch of changes copies a leaf once. The bounds between leaves are separators, not first keys: leaf `i` holds keys in
``bounds[i] <= key < bounds[i+1]``, so adding and removing keys moves none of them. Keys compare as Python strings,
which is the byte order of UTF-8.

Must not know: the backend, subscriptions, how entries are made. See also: `resource_cache`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from oarlock.storage.backend import Rev
from oarlock.storage.cache.entry import CacheEvent, Entry
from oarlock.storage.cache.follower import CacheLimits

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
    "Ring",
    "Root",
    "Roots",
    "Snapshot",
    "State",
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
    """Entries in key order. What is derived from them, `measure_cache` and the `indices`, is cached until they change.

    So is `derived`, which belongs to who reads the leaf. A leaf of a `Root` never changes.
    """

    __slots__ = ("derived", "indices", "measure_cache")

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__(entries)
        self.measure_cache: Measure | None = None
        self.derived: object = None
        self.indices: dict[LeafColumn, dict[str, list[Entry]] | None] | None = None

    def having(self, column: LeafColumn, value: str) -> Sequence[Entry]:
        """The entries with this value in a column, which mustn't be changed. They must not be completed later any more.

        The second time that a column is asked for, an index of it is made: a leaf that changes between any two
        questions pays for none.
        """
        indices = self.indices
        if indices is None:
            indices = self.indices = {}
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
            leaf.measure_cache = leaf.derived = leaf.indices = None  # which were of the entries before
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


_OVERHEAD_BYTES = 256
"""An event and its entry without the body, about."""


class Ring:
    """All events of one resource with a revision in ``(oldest, …]``.

    Three parallel lists with a moving head instead of a deque, so that finding a revision is a bisection.
    """

    __slots__ = ("_bytes", "_events", "_head", "_limits", "_revs", "_room", "_times", "last", "oldest")

    oldest: Rev
    """Every change after this revision is here."""
    last: Rev
    """The revision of the newest change, or where the ring began when there has been none."""

    def __init__(self, limits: CacheLimits, start: Rev) -> None:
        self._limits = limits
        self._room = limits.ring_min
        self._events: list[CacheEvent | None] = []
        self._revs: list[Rev] = []
        self._times: list[float] = []
        self._head = 0
        self._bytes = 0
        self.oldest = start
        self.last = start

    def __len__(self) -> int:
        return len(self._revs) - self._head

    @property
    def bytes(self) -> int:
        """The estimated memory kept alive by the events.

        Each body counts once: an event's entry is the next one's previous.
        """
        return self._bytes

    def append(self, event: CacheEvent, now: float) -> None:
        """Add the newest event, and drop old ones beyond the limits. `now` is in monotonic seconds."""
        events = self._events
        events.append(event)
        self._revs.append(event.rev)
        self._times.append(now)
        self.last = event.rev
        event.size = len(event.entry.body) + _OVERHEAD_BYTES
        self._bytes += event.size
        count = len(events) - self._head
        if count > self._limits.ring_warm:
            older = events[-1 - self._limits.ring_warm]
            if older is not None:
                older.memo = None
        if count > self._room:
            self._make_room(now)
        while self._bytes > self._limits.ring_bytes and len(self) > 1:
            self._drop()

    def _make_room(self, now: float) -> None:
        young = now - self._limits.ring_age_s
        if self._times[self._head] > young:
            self._room = min(self._room * 2, self._limits.ring_max)
        elif self._times[len(self._times) - self._room // 4] <= young:
            self._room = max(self._room // 2, self._limits.ring_min)
        while len(self) > self._room:
            self._drop()

    def _drop(self) -> None:
        head = self._head
        event = self._events[head]
        if event is not None:
            self.oldest = event.rev
            self._bytes -= event.size
        self._events[head] = None
        self._head = head = head + 1
        if head > 64 and head * 2 > len(self._revs):
            del self._events[:head]
            del self._revs[:head]
            del self._times[:head]
            self._head = 0

    def after(self, rev: Rev) -> list[CacheEvent]:
        """The events after `rev`, oldest first. Complete when ``rev >= oldest``."""
        first = bisect_right(self._revs, rev, self._head)
        return [event for event in self._events[first:] if event is not None]

    def find(self, rev: Rev) -> CacheEvent | None:
        """The event at exactly `rev`."""
        at = bisect_right(self._revs, rev, self._head) - 1
        return self._events[at] if at >= self._head and self._revs[at] == rev else None

    def next_change(self, rev: Rev) -> Rev:
        """The revision of the first change after `rev`, which must be below `last`."""
        return self._revs[bisect_right(self._revs, rev, self._head)]

    def before(self, rev: Rev, until: Rev, most: int) -> dict[str, Entry | None] | None:
        """For the keys changed in ``(rev, until]``, their entries at `rev`, None for absent.

        The result is None when that is unknown, or when there are more than `most`.
        """
        if rev < self.oldest:
            return None
        first = bisect_right(self._revs, rev, self._head)
        end = bisect_right(self._revs, until, first)
        if end - first > most * 4:
            return None
        states: dict[str, Entry | None] = {}
        for event in self._events[first:end]:
            if event is not None:
                states.setdefault(event.entry.key, event.previous)
        return states if len(states) <= most else None


class Snapshot:
    """The entries of one resource at `rev`. Ranges are ``start <= key < end``."""

    __slots__ = ("_root", "rev")

    def __init__(self, rev: Rev, root: Root) -> None:
        self.rev = rev
        self._root = root

    @property
    def size(self) -> int:
        """The number of entries."""
        return self._root.size

    def range(self, start: str, end: str) -> Iterator[Sequence[Entry]]:
        """The entries of the range, in slices of at most a few hundred. A slice must not be changed."""
        if start >= end:
            return
        root = self._root
        leaves = root.leaves
        first, low = root.locate(start)
        last, high = root.locate(end)
        for at in range(first, last + 1):
            leaf = leaves[at]
            begin, stop = low if at == first else 0, high if at == last else len(leaf)
            if begin < stop:
                yield leaf[begin:stop] if stop - begin < len(leaf) else leaf

    def selected(self, by: Hashable) -> Leaf | None:
        """As `Root.selected`."""
        return self._root.selected(by)

    def remember(self, by: Hashable, entries: Sequence[Entry]) -> Leaf:
        """As `Root.remember`."""
        return self._root.remember(by, entries)

    def page(self, start: str, end: str, limit: int) -> tuple[list[Sequence[Entry]], bool]:
        """The first `limit` entries of the range (0: all) in slices as those of `range`, and whether there are more."""
        page: list[Sequence[Entry]] = []
        left = limit
        for part in self.range(start, end):
            if limit and len(part) > left:
                if left:
                    page.append(part[:left])
                return page, True
            page.append(part)
            left -= len(part)
        return page, False

    def count(self, start: str, end: str) -> int:
        """The number of entries in the range, computed from the lengths of the leaves."""
        if start >= end:
            return 0
        root = self._root
        first, low = root.locate(start)
        last, high = root.locate(end)
        if first == last:
            return max(high - low, 0)
        return sum(map(len, root.leaves[first:last])) - low + high


class _PastState:
    """A root that was the state of the resource at every revision in ``[first, last]``."""

    __slots__ = ("first", "last", "root")

    def __init__(self, first: Rev, last: Rev, root: Root) -> None:
        self.first = first
        self.last = last
        self.root = root


_OPEN = 1 << 62


class Roots:
    """The recorded states, oldest first."""

    __slots__ = ("_limits", "open", "states")

    open: bool
    """Whether the newest recorded state is the current one. Read on every change, so that `seal` is called rarely."""

    def __init__(self, limits: CacheLimits) -> None:
        self.states: deque[_PastState] = deque(maxlen=limits.roots)
        self._limits = limits
        self.open = False

    def __len__(self) -> int:
        return len(self.states)

    def current(self, tree: Leaves, ring: Ring) -> Root:
        """The current state, recorded from now on."""
        if self.open:
            return self.states[-1].root
        root = tree.freeze()
        self.states.append(_PastState(ring.last, _OPEN, root))
        self.open = True
        return root

    def seal(self, rev: Rev) -> None:
        """End the current state: a change at revision `rev` is about to be made."""
        if self.open:
            newest = self.states[-1]
            newest.last = rev - 1
            newest.root.forget_selected()
            self.open = False

    def at(self, rev: Rev, tree: Leaves, ring: Ring) -> Root | None:
        """The state at `rev`, a revision below ``ring.last``; None when it isn't recorded and can't be made cheaply."""
        if rev < ring.oldest:
            return None
        later: _PastState | None = None
        place = len(self.states)
        for state in reversed(self.states):
            if state.last < rev:
                break
            place -= 1
            later = state
            if state.first <= rev:
                return state.root
        until = later.first if later else ring.last
        changes = ring.before(rev, until, self._limits.undo)
        if changes is None:
            return None
        past = Leaves(later.root if later else tree.freeze())
        for key, entry in changes.items():
            if entry is None:
                past.remove(key)
            else:
                past.put(entry)
        root = past.freeze()
        if len(self.states) < self._limits.roots:
            self.states.insert(place, _PastState(rev, ring.next_change(rev) - 1, root))
        return root


class State:
    """Built from entries in key order and a ring that ends at or before the list's revision."""

    __slots__ = ("_roots", "_tree", "live", "ring")

    def __init__(self, live: dict[str, Entry], ring: Ring, limits: CacheLimits) -> None:
        self.live = live
        self.ring = ring
        self._tree = Leaves.build(list(live.values()))
        self._roots = Roots(limits)

    def put(self, entry: Entry, now: float) -> CacheEvent:
        """Apply the creation or update of an object. Revisions only grow; `now` is in monotonic seconds."""
        roots = self._roots
        if roots.open:
            roots.seal(entry.rev)
        live = self.live
        previous = live.get(entry.key)
        live[entry.key] = entry
        self._tree.put(entry)
        event = CacheEvent("ADDED" if previous is None else "MODIFIED", entry.rev, entry, previous)
        self.ring.append(event, now)
        return event

    def remove(self, entry: Entry, now: float) -> CacheEvent:
        """Apply the deletion of an existing object. `entry` is its last state, at the revision of the deletion."""
        roots = self._roots
        if roots.open:
            roots.seal(entry.rev)
        previous = self.live.pop(entry.key)
        self._tree.remove(entry.key)
        event = CacheEvent("DELETED", entry.rev, entry, previous)
        self.ring.append(event, now)
        return event

    def settle(self) -> None:
        """Called after a batch: drop the states that ended before what the ring still has."""
        states, oldest = self._roots.states, self.ring.oldest
        while states and states[0].last < oldest:
            states.popleft()

    def snapshot(self, rev: Rev) -> Snapshot:
        """The current state as of `rev`: every event up to `rev` has been applied."""
        return Snapshot(rev, self._roots.current(self._tree, self.ring))

    def snapshot_at(self, rev: Rev) -> Snapshot | None:
        """The state at `rev`, every event up to which has been applied; None when it isn't in memory."""
        if rev >= self.ring.last:
            return self.snapshot(rev)
        root = self._roots.at(rev, self._tree, self.ring)
        return None if root is None else Snapshot(rev, root)
