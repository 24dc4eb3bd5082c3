"""gzip for large answers, if the client accepts it, compressed piece by piece as they are sent.

Each piece is compressed independently and ends at a byte boundary, so that at most one piece, and no compressor state,
is held for a slow client. Source: RFC 1952; RFC 1951 §3.2.3. See also: `respond`.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

from oarlock.endpoints.http import BodySource, ResponseBody

__all__ = ["END", "GZIP_ABOVE", "HEAD", "gzipped"]

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
            packed, check = await loop.run_in_executor(None, _packed, data, check)
            size += len(data)
            yield before + packed
            before = b""
        yield before + END + check.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
    finally:
        close = getattr(raw, "aclose", None)
        if close is not None:
            await close()


def _packed(data: bytes, check: int) -> tuple[bytes, int]:
    """`data` as independent deflate blocks that end at a byte boundary, and the updated checksum."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH), zlib.crc32(data, check)
