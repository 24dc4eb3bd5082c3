"""Bodies of lists that are joined while they are sent, and their gzip.

A `JoinedBody` holds only references, so that the bytes exist once, however many clients read the same list. Large
answers are compressed piece by piece as they are sent; each piece ends at a byte boundary, so that no compressor state
is held for a slow client. Of whole lists pieces are kept (`packed_list`): a leaf of the cache is compressed once, until
one of its objects changes. A piece then is the objects of one leaf as deflate blocks which refer to nothing before
them; an answer is a header, the pieces, and a checksum combined from theirs (RFC 1951 §3.2.3, RFC 1952).
Must not know: selectors, other forms of a list. See also: `lists`, ``http.BodySource``.
"""

from __future__ import annotations

import asyncio
import weakref
import zlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from struct import Struct
from typing import Final, NamedTuple

from oarlock.endpoints.http import BodySource, Response, ResponseBody, Unsent
from oarlock.endpoints.lists import packed_lists
from oarlock.registry.read.recipes import ListItem
from oarlock.storage.cache.state import HasBody, Leaf, Measure, measure
from oarlock.storage.pacing import Pacer

_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31


def combined(first: int, second: int, second_shift: int) -> int:
    """The checksum of two parts, from those of both and the `shift` of the second."""
    return _product(first, second_shift) ^ second


def shift(size: int) -> int:
    """The factor for appending `size` bytes."""
    factor, power = _ONE, _ONE >> 8  # x^8: one byte
    while size:
        if size & 1:
            factor = _product(factor, power)
        power = _product(power, power)
        size >>= 1
    return factor


def _product(left: int, right: int) -> int:
    product, bit = 0, _ONE
    while bit:
        if left & bit:
            product ^= right
        right = right >> 1 ^ _POLYNOMIAL if right & 1 else right >> 1
        bit >>= 1
    return product


STEP = 256
"""How many items are measured at once."""

LARGE_BYTES = 16 * 1024
"""A larger item, in bytes, is sent in slices instead of being copied whole."""

MOST_BYTES_AT_ONCE = 1024 * 1024
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
        count = max(1, min(room * len(self._items) // (size + 1), MOST_BYTES_AT_ONCE // (largest + 1)))
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


GZIP_ABOVE = 128 * 1024
"""Answers with more bytes are compressed for clients that accept gzip."""

PIECE_BYTES = 256 * 1024
HEAD = b"\x1f\x8b\x08\0\0\0\0\0\4\xff"  # deflate, no name, no time, fastest, unknown system
END = b"\3\0"  # an empty final block


async def gzipped(body: ResponseBody) -> ResponseBody | None:
    """`body` compressed; None if it is too small."""
    match body:
        case bytes():
            length, pieces = len(body), _cut(body)
        case BodySource() if body.length is not None:
            length, pieces = body.length, _read(body)
        case BodySource():
            return _packed_pieces(_read(body))
        case _:
            return _packed_pieces(body)
    if length > PIECE_BYTES:
        return _packed_pieces(pieces)
    if length <= GZIP_ABOVE:
        return None
    whole = b"".join([piece async for piece in pieces])
    return await asyncio.get_running_loop().run_in_executor(None, _gzip, whole)


def _gzip(data: bytes) -> bytes:
    """Level 1, as kube-apiserver compresses; zlib releases the interpreter's lock meanwhile."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


async def _cut(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]


async def _read(body: BodySource) -> AsyncIterator[bytes]:
    while not body.done:
        yield body.read(PIECE_BYTES)


async def _packed_pieces(raw: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    check = size = 0
    before = HEAD
    try:
        async for data in raw:
            packed, check = await loop.run_in_executor(None, _compressed_part, data, check)
            size += len(data)
            yield before + packed
            before = b""
        yield before + END + check.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
    finally:
        close = getattr(raw, "aclose", None)
        if close is not None:
            await close()


def _compressed_part(data: bytes, check: int) -> tuple[bytes, int]:
    """`data` as independent deflate blocks that end at a byte boundary, and the updated checksum."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH), zlib.crc32(data, check)


MOST_BYTES = 64 * 1024 * 1024
"""Of all pieces that are kept."""

LEAF_BYTES = 1024 * 1024
"""The objects of a leaf with more bytes are compressed as they are sent."""

LIST_BYTES = 64 * 1024 * 1024
"""A list with more bytes too: its first bytes would come late."""

PIECE_OVERHEAD = 400
STORED_BYTES = 65_535
_STORED = Struct("<BHH")


class PackedLeaf:
    """Deflate blocks, with the `check` sum of their text and the `shift` of its size.

    `between` is what the objects were joined with. `data` is empty once the piece was dropped.
    """

    __slots__ = ("__weakref__", "between", "check", "data", "shift", "size")

    def __init__(self, text: bytes, data: bytes, between: bytes = b"") -> None:
        self.data = data
        self.check = zlib.crc32(text)
        self.shift = packed_lists.shift(len(text))
        self.size = len(text)
        self.between = between


def _packed(text: bytes, between: bytes) -> PackedLeaf:
    """Level 1, as kube-apiserver compresses; zlib releases the interpreter's lock meanwhile."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return PackedLeaf(text, packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH), between)


def _stored(text: bytes) -> bytes:
    """Blocks that aren't compressed (RFC 1951 §3.2.4): a short text would grow."""
    blocks = [text[start : start + STORED_BYTES] for start in range(0, len(text), STORED_BYTES)]
    return b"".join(_STORED.pack(0, len(block), len(block) ^ 0xFFFF) + block for block in blocks)


@lru_cache(maxsize=256)
def _constant(text: bytes) -> PackedLeaf:
    """A text of the program's own, such as what is between two objects of a resource."""
    return PackedLeaf(text, _stored(text))


class KeptPieces:
    """Counts the pieces that leaves keep, and drops the oldest beyond `most_bytes`. A piece that ends with its leaf
    counts no more."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes: Final = most_bytes
        self._pieces: OrderedDict[int, tuple[weakref.ref[PackedLeaf], int]] = OrderedDict()
        self.bytes = 0

    def add(self, piece: PackedLeaf) -> None:
        """Count `piece`."""
        size = len(piece.data) + PIECE_OVERHEAD
        self._pieces[id(piece)] = (weakref.ref(piece, partial(self._ended, id(piece))), size)
        self.bytes += size
        while self.bytes > self._most_bytes:
            _, (oldest, size) = self._pieces.popitem(last=False)
            self.bytes -= size
            dropped = oldest()
            if dropped is not None:
                dropped.data = b""

    def _ended(self, key: int, _: object) -> None:
        _, size = self._pieces.pop(key, (None, 0))
        self.bytes -= size


class ListText:
    """The text of a list besides its objects: `before` the first, `between` two, and `after` the last."""

    __slots__ = ("after", "before", "between")

    def __init__(self, before: bytes, between: bytes, after: bytes) -> None:
        self.before = before
        self.between = between
        self.after = after


_kept = KeptPieces(MOST_BYTES)


async def packed_list(
    unsent: Unsent, response: Response, text: ListText, chunks: Sequence[Sequence[ListItem]], size: int
) -> bool:
    """Make the body of `response` a list in gzip, of objects of `size` bytes; False if it isn't one of whole leaves.

    The first and last chunk may be parts of leaves, which are compressed each time.
    """
    if size > LIST_BYTES or any(not _is_small(chunk) for chunk in chunks):
        return False
    if sum(not isinstance(chunk, Leaf) for chunk in chunks) > len(chunks) // 2:
        return False
    pacer = Pacer()
    separator, end = _constant(text.between), _constant(text.after)
    parts = [HEAD + _stored(text.before)]
    check, length = zlib.crc32(text.before), len(text.before)
    for at, chunk in enumerate(chunks):
        piece = await _piece(chunk, text.between)
        for part in (separator, piece) if at else (piece,):
            check = packed_lists.combined(check, part.check, part.shift)
            length += part.size
            parts.append(part.data)
        await pacer.turn()
    check = packed_lists.combined(check, end.check, end.shift)
    length += end.size
    parts += (end.data, END, check.to_bytes(4, "little"), (length & 0xFFFFFFFF).to_bytes(4, "little"))
    _send(unsent, response, parts)
    return True


def _is_small(chunk: Sequence[ListItem]) -> bool:
    return measure(chunk).size <= LEAF_BYTES


async def _piece(chunk: Sequence[ListItem], between: bytes) -> PackedLeaf:
    kept = chunk.derived if isinstance(chunk, Leaf) else None
    if isinstance(kept, PackedLeaf) and kept.data and kept.between == between:
        return kept
    joined = between.join([item.body for item in chunk])
    piece = await asyncio.get_running_loop().run_in_executor(None, _packed, joined, between)
    if isinstance(chunk, Leaf):
        chunk.derived = piece
        _kept.add(piece)
    return piece


def _send(unsent: Unsent, response: Response, parts: list[bytes]) -> None:
    """Clients that wait for the same piece count it once."""
    for part in parts:
        unsent.hold(part)

    def release(whole: bool) -> None:
        for part in parts:
            unsent.release(part)

    response.body = JoinedBody(b"", [[BodyPart(part) for part in parts]], b"", b"", sum(map(len, parts)))
    response.headers += [("content-encoding", "gzip"), ("vary", "Accept-Encoding")]
    response.on_sent(release)
