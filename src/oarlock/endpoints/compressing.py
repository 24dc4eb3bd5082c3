"""gzip: answers that are large are compressed for clients that ask for it, piece by piece as they are read.

Each piece is compressed from nothing and ends at a whole byte, so that no more than a piece, and no window of the
compressor, is kept for a client that doesn't read. Source: RFC 1952; RFC 1951 §3.2.3. Next: `respond`.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

from oarlock.endpoints.http import BodySource, ResponseBody

__all__ = ["GZIP_ABOVE", "gzipped"]

GZIP_ABOVE = 128 * 1024
"""Answers with more bytes are compressed for clients that ask for it."""

PIECE_BYTES = 256 * 1024
HEAD = b"\x1f\x8b\x08\0\0\0\0\0\4\xff"  # deflate, no name, no time, fastest, unknown system
END = b"\3\0"  # an empty last block


async def gzipped(body: ResponseBody) -> ResponseBody | None:
    """`body` compressed; None for one that is too small for it."""
    if isinstance(body, AsyncIterator):
        return _pieces(body)
    length = len(body) if isinstance(body, bytes) else body.length
    if length is None or length > PIECE_BYTES:
        return _pieces(_cut(body))
    if length <= GZIP_ABOVE:
        return None
    whole = body if isinstance(body, bytes) else b"".join([piece async for piece in _cut(body)])
    return await asyncio.get_running_loop().run_in_executor(None, _gzip, whole)


def _gzip(data: bytes) -> bytes:
    """Level 1, as the API server compresses; zlib lets go of the interpreter meanwhile."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


async def _cut(body: bytes | BodySource) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        for start in range(0, len(body), PIECE_BYTES):
            yield body[start : start + PIECE_BYTES]
        return
    while not body.done:
        yield body.read(PIECE_BYTES)


async def _pieces(raw: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
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
    """`data` as blocks of deflate that end at a byte and need nothing that was before; the checksum with it."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH), zlib.crc32(data, check)
