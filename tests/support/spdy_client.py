"""The client's side of SPDY/3.1, as far as Go's clients forward ports with it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Awaitable, Callable

from oarlock.endpoints.channels.spdy_frames import DICTIONARY

__all__ = ["SpdyClient", "header_block"]


def header_block(headers: dict[str, str]) -> bytes:
    """A header block that isn't packed."""
    texts = [text.encode() for pair in headers.items() for text in pair]
    return struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)


class SpdyClient:
    """Sends frames by `write`, and has read those of the server by `read`."""

    def __init__(self, write: Callable[[bytes], None], read: Callable[[], Awaitable[bytes]]) -> None:
        self.write = write
        self._read = read
        self._pack = zlib.compressobj(zdict=DICTIONARY)
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)
        self._buffer = b""

    def control(self, kind: int, body: bytes, flags: int = 0) -> None:
        self.write(struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body)

    def open(self, stream: int, block: bytes, *, last: bool = False) -> None:
        packed = self._pack.compress(block) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        self.control(1, struct.pack(">IIH", stream, 0, 0) + packed, int(last))

    def connect(self, port: str, request: int, first: int) -> tuple[int, int]:
        """Open the two streams of a connection; returns the numbers of ``error`` and ``data``."""
        for stream, kind in ((first, "error"), (first + 2, "data")):
            headers = {"streamtype": kind, "port": port, "requestid": str(request)}
            self.open(stream, header_block(headers), last=kind == "error")
        return first, first + 2

    def data(self, stream: int, data: bytes, *, last: bool = False) -> None:
        self.write(struct.pack(">II", stream, last << 24 | len(data)) + data)

    async def frame(self) -> tuple[int, int, bytes, bool]:
        """Kind (0 for data), stream, what it has, and whether it is the last. Raises EOFError."""
        first, rest = struct.unpack(">II", await self._exactly(8))
        body = await self._exactly(rest & 0xFFFFFF)
        last = bool(rest >> 24)
        if not first >> 31:
            return 0, first, body, last
        kind, stream = first & 0xFFFF, struct.unpack_from(">I", body)[0]
        return kind, stream, self._unpack.decompress(body[4:]) if kind == 2 else body[4:], last

    async def until_end(self, *streams: int) -> dict[int, bytes]:
        """The data of these streams, up to their ends."""
        received, left = dict.fromkeys(streams, b""), set(streams)
        while left:
            kind, stream, data, last = await self.frame()
            if kind == 0 and stream in left:
                received[stream] += data
                if last:
                    left.remove(stream)
        return received

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = await self._read()
            if not data:
                raise EOFError
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken
