"""`ReceivedBlocks`: decodes the header blocks of one connection, and remembers those that may come again.

Clients say the same request in the same bytes, as long as HPACK's dynamic table stays as it is: such a block is decoded
and checked once. See also: `http2.input`, which receives blocks; `http2.headers`, the rules for what they say.
"""

from __future__ import annotations

from oarlock.http2.header_blocks import BlockDecoder, HeaderFields
from oarlock.meta.memo import Memo
from oarlock.server.serving.http2.headers import MalformedRequest, known_request_head
from oarlock.server.serving.known_heads import Http2Head

__all__ = ["ReceivedBlock", "ReceivedBlocks", "StreamHead"]

REMEMBERED_BYTES = 16 * 1024
"""Of memory for one connection."""
FIELD_MEMORY = 320
"""Bytes of memory for a field, besides its name and value."""
LENGTH_DIGITS = 19


class StreamHead:
    """The head of a request. `headers` is to be copied for each request, since filters remove headers."""

    __slots__ = ("expects", "headers", "length", "lines", "method", "path", "query")

    def __init__(self, fields: HeaderFields, size: int, known: Memo[HeaderFields, Http2Head]) -> None:
        """Raises `MalformedRequest`."""
        self.method, target, self.headers, self.lines = known_request_head(fields, size, known)
        self.path, _, self.query = target.partition("?")
        self.length: int | None = None  # as announced
        if "content-length" in self.headers:
            declared = self.headers["content-length"]
            if not (declared.isascii() and declared.isdigit() and len(declared) <= LENGTH_DIGITS):
                raise MalformedRequest("content-length")
            self.length = int(declared)
        self.expects = self.headers.get("expect", "").lower() == "100-continue"


class ReceivedBlock:
    """The unchecked fields of a header block, and their `size` as RFC 9113 counts it."""

    __slots__ = ("_head", "fields", "size")

    def __init__(self, fields: HeaderFields, size: int) -> None:
        self.fields = fields
        self.size = size
        self._head: StreamHead | None = None

    def head(self, known: Memo[HeaderFields, Http2Head]) -> StreamHead:
        """The fields as the head of a request, made once. Raises `MalformedRequest`."""
        head = self._head
        if head is None:
            head = self._head = StreamHead(self.fields, self.size, known)
        return head


class ReceivedBlocks:
    """Decodes blocks of at most `most_bytes` and `most_fields`.

    What is remembered is forgotten when a block changes the dynamic table: the same bytes may then say something else.
    """

    __slots__ = ("_decoder", "_remembered")

    def __init__(self, most_bytes: int, most_fields: int) -> None:
        self._decoder = BlockDecoder(most_bytes, most_fields)
        self._remembered: Memo[bytes, ReceivedBlock] = Memo(
            REMEMBERED_BYTES, entry_bytes=512, longest_bytes=REMEMBERED_BYTES // 2
        )

    def decode(self, data: bytes) -> ReceivedBlock:
        """The block `data`. Raises `Http2Error`."""
        found = self._remembered.get(data)
        if found is not None:
            return found
        fields, size = self._decoder.decode(data)
        block = ReceivedBlock(fields, size)
        if not self._decoder.changed_table:
            self._remembered.put(data, block, len(data) + 2 * size + FIELD_MEMORY * len(fields))
        elif self._remembered.held_bytes:
            self._remembered.drop(lambda block: True)
        return block
