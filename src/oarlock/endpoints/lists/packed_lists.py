"""Lists in gzip from pieces that are kept: a leaf of the cache is compressed once, until one of its objects changes.

A piece is the objects of one leaf as deflate blocks of their own, which end at a byte boundary and refer to nothing
before them. An answer is a header, the pieces, and a checksum combined from theirs (RFC 1951 §3.2.3, RFC 1952). The
pieces belong to their leaves, at most `MOST_BYTES` of them in a process; the oldest are dropped first.

Must not know: selectors, other forms of a list. See also: `lists`; `compressing`, for everything else.
"""

from __future__ import annotations

import asyncio
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache, partial
from struct import Struct
from typing import Final

from oarlock.codec import crc32
from oarlock.endpoints.http import Response
from oarlock.endpoints.lists.compressing import END, HEAD
from oarlock.endpoints.lists.joined import BodyPart, JoinedBody
from oarlock.endpoints.unsent import Unsent
from oarlock.registry.read.recipes import ListItem
from oarlock.storage.cache.leaves import Leaf, measure
from oarlock.storage.pacing import Pacer

__all__ = ["KeptPieces", "ListText", "PackedLeaf", "packed_list"]

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
        self.shift = crc32.shift(len(text))
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
            check = crc32.combined(check, part.check, part.shift)
            length += part.size
            parts.append(part.data)
        await pacer.turn()
    check = crc32.combined(check, end.check, end.shift)
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
