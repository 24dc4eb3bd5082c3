"""`JoinedBody`: a list body joined from the cache's bytes while it is sent.

It holds only references, so that the bytes exist once, however many clients read the same list. See also: `lists`,
``http.BodySource``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from oarlock.endpoints.http import BodySource
from oarlock.storage.cache.leaves import HasBody, Measure, measure

__all__ = ["BodyPart", "JoinedBody", "one_body"]

STEP = 256
"""How many items are measured at once."""
LARGE_BYTES = 16 * 1024
"""A larger item, in bytes, is sent in slices instead of being copied whole."""
MOST_BYTES = 1024 * 1024
"""The most bytes copied at once when the sizes of items are unknown."""


class BodyPart(NamedTuple):
    """Bytes of which a body is joined, like those of an entry."""

    body: bytes


class JoinedBody(BodySource):
    """`before`, the bodies of all items of all `chunks` with `between` between them, and `after`."""

    __slots__ = ("_after", "_at", "_before", "_between", "_chunks", "_cut", "_cut_at", "_first", "_items", "_measure")

    def __init__(
        self,
        before: bytes,
        chunks: Iterable[Sequence[HasBody]],
        between: bytes,
        after: bytes,
        length: int | None = None,
    ) -> None:
        super().__init__(length)
        self._before = before
        self._chunks = iter(chunks)
        self._between = between
        self._after = after
        self._items: Sequence[HasBody] = []
        self._measure = Measure(0, 0)
        self._at = 0  # how many items were read
        self._first = True
        self._cut = b""  # the current large item, and how much of it was read
        self._cut_at = 0

    def read(self, most: int) -> bytes:
        """The next piece. It ends with a chunk that fills half of it or more: one part isn't copied again."""
        parts: list[bytes] = []
        room = most
        while room > (most // 2 if parts else 0) and not self.done:
            if self._cut:
                room -= self._slice(parts, room)
            elif self._at < len(self._items):
                room -= self._join(parts, room)
            else:
                self._next_chunk(parts)
        return b"".join(parts)

    def _next_chunk(self, parts: list[bytes]) -> None:
        chunk = next(self._chunks, None)
        if chunk is None:
            parts.append(self._before + self._after if self._first else self._after)
            self.done = True
        else:
            self._items, self._at, self._measure = chunk, 0, measure(chunk)

    def _lead(self) -> bytes:
        """What comes before the next item."""
        if self._first:
            self._first = False
            return self._before
        return self._between

    def _join(self, parts: list[bytes], room: int) -> int:
        """Add whole items up to `room` bytes, or slightly more; returns their size."""
        if self._measure.largest > LARGE_BYTES:
            return self._join_measured(parts, room)
        size, largest = self._measure
        # about as many as fit: none is large
        count = max(1, min(room * len(self._items) // (size + 1), MOST_BYTES // (largest + 1)))
        bodies = [item.body for item in self._items[self._at : self._at + count]]
        bodies[0] = self._lead() + bodies[0]
        joined = self._between.join(bodies)
        parts.append(joined)
        self._at += count
        return len(joined) if self._at >= len(self._items) else room  # the others go into the next piece

    def _join_measured(self, parts: list[bytes], room: int) -> int:
        bodies = [item.body for item in self._items[self._at : self._at + STEP]]
        ends = list(accumulate(map(len, bodies)))
        count = bisect_left(ends, room) + 1
        if count <= len(bodies):
            del bodies[count:]
            if len(bodies[-1]) > LARGE_BYTES:
                self._cut = bodies.pop()
                self._cut_at = 0
                self._at += 1
        self._at += len(bodies)
        if bodies:
            bodies[0] = self._lead() + bodies[0]
            parts.append(self._between.join(bodies))
        if self._cut:
            parts.append(self._lead())
        return ends[len(bodies) - 1] if bodies else 0

    def _slice(self, parts: list[bytes], room: int) -> int:
        """Add a slice of a large item."""
        piece = self._cut[self._cut_at : self._cut_at + room]
        parts.append(piece)
        self._cut_at += len(piece)
        if self._cut_at == len(self._cut):
            self._cut = b""
        return len(piece)


def one_body(before: bytes, body: bytes) -> JoinedBody:
    """A single object: `before`, its `body` and a newline."""
    return JoinedBody(before, [[BodyPart(body)]], b"", b"\n", len(before) + len(body) + 1)
