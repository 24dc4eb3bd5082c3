"""A `Snapshot`: all objects of a resource at one revision, in key order. Immutable, and cheap to take.

A snapshot keeps only its own entries alive.

Must not know: where it came from, who reads it. See also: `roots`, which keeps some for the next page of a list.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from oarlock.storage.backend import Rev
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.leaves import Leaf, Root

__all__ = ["Snapshot"]


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
