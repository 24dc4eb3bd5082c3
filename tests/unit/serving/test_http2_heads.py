"""A header block that came before on its connection is known again, as long as its bytes say the same."""

from __future__ import annotations

from typing import Any

from hpack import Encoder
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.endpoints.http import Request, Response
from oarlock.http2 import frames as h2
from oarlock.http2.frames import Http2Error, data_frame, frame, headers_frames
from oarlock.http2.header_blocks import BlockDecoder
from oarlock.server.serving.http2.heads import ReceivedBlocks

SETTINGS = h2.PREFACE + frame(h2.SETTINGS, 0, 0, b"")
REQUEST = b"\x82\x84\x87\x01\1h"  # GET, /, https, and an authority that isn't indexed
NEWEST, NEXT = b"\xbe", b"\xbf"  # of the dynamic table

PIECES = [REQUEST, NEWEST, NEXT, b"\x40\1a\1b", b"\x40\1a\1c", b"\x44\1/", b"\0\1a\1d", b"\x10\1a\1e", b"\x7e\1f"]
SIZES = [b"\x20", b"\x3f\x11", b"\x3f\xe1\x1f", b"\x20\x3f\xe1\x1f"]
BLOCKS = st.tuples(st.sampled_from([b"", b"", b"", *SIZES]), st.lists(st.sampled_from(PIECES), max_size=3)).map(
    lambda parts: parts[0] + b"".join(parts[1])
)


def said(decoded: Any) -> list[tuple[bytes, bytes]]:
    return [(bytes(name), bytes(value)) for name, value, _ in decoded]


@examples(500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(blocks=[b"\x40\1a\1b", NEWEST, NEWEST, b"\x40\1a\1c", NEWEST])
@example(blocks=[b"\x40\1a\1b", NEWEST, b"\x20", NEWEST])
@example(blocks=[b"\x40\1a\1b", b"\x40\1a\1c", NEXT, b"\x3f\x11", NEXT])
@given(blocks=st.lists(BLOCKS, max_size=12))
def test_blocks_say_what_they_say_to_a_decoder_that_remembers_nothing(blocks: list[bytes]) -> None:
    remembering, plain = ReceivedBlocks(10_000, 100), BlockDecoder(10_000, 100)
    for block in blocks:
        found: list[Any] = []
        try:
            fields, size = plain.decode(block)
            found.append((said(fields), size))
        except Http2Error as error:
            found.append(error.code)
        try:
            received = remembering.decode(block)
            found.append((said(received.fields), received.size))
        except Http2Error as error:
            found.append(error.code)
        assert found[0] == found[1]
        if isinstance(found[0], int):
            return  # the connection ends


def test_a_block_is_taken_apart_once_until_the_table_changes() -> None:
    received = ReceivedBlocks(10_000, 100)
    received.decode(b"\x40\1a\1b")
    first = received.decode(REQUEST + NEWEST)
    assert received.decode(REQUEST + NEWEST) is first
    received.decode(b"\x40\1a\1c")
    assert said(received.decode(REQUEST + NEWEST).fields)[-1] == (b"a", b"c")


async def echo(request: Request) -> Response:
    """All that a handler can see, and what a handler may do to the headers."""
    text = f"{request.method} {request.path} {request.query} {sorted(request.headers.items())} ".encode()
    text += str(list(request.all_headers)).encode()
    request.headers.pop("accept", None)
    request.replace_header("host", ["changed"])
    return Response(200, [], text + await request.read())


def bodies(frames: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(frames):
        size = int.from_bytes(frames[at : at + 3], "big")
        if frames[at + 3] == h2.DATA:
            found.append(frames[at + 9 : at + 9 + size])
        at += 9 + size
    return found


def test_what_a_handler_does_to_the_headers_isnt_seen_by_the_next(wire: Any) -> None:
    encoder, one = Encoder(), wire(echo)
    head = [(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", "/a?b=c"), ("accept", "a")]
    one.feed(SETTINGS)
    for n in range(4):
        one.feed(headers_frames(2 * n + 1, encoder.encode(head), False) + data_frame(2 * n + 1, b"xyz", True))
    found = bodies(one.settle())
    assert len(found) == 4
    assert set(found) == {found[0]}
    one.leave()


def test_a_length_that_was_announced_is_looked_at_in_every_request(wire: Any) -> None:
    """The same block, first with the body it announces, then without one, then with another one."""
    encoder, one = Encoder(), wire(echo)
    head = [(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", "/"), ("content-length", "3")]
    one.feed(SETTINGS + headers_frames(1, encoder.encode(head), False) + data_frame(1, b"xyz", True))
    again = encoder.encode(head)
    one.feed(headers_frames(3, again, False) + data_frame(3, b"xyz", True))
    one.feed(headers_frames(5, again, True) + headers_frames(7, again, False) + data_frame(7, b"xyza", True))
    sent = one.settle()
    assert len(bodies(sent)) == 2
    for stream in (5, 7):
        assert h2.rst_stream_frame(stream, h2.ErrorCode.PROTOCOL_ERROR) in sent
    one.leave()


def test_trailers_in_the_bytes_of_a_head_are_refused(wire: Any) -> None:
    encoder, one = Encoder(), wire(echo)
    head = [(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", "/")]
    one.feed(SETTINGS + headers_frames(1, encoder.encode(head), True))
    again = encoder.encode(head)
    one.feed(headers_frames(3, again, True) + headers_frames(5, again, False) + headers_frames(5, again, True))
    sent = one.settle()
    assert len(bodies(sent)) == 2
    assert h2.rst_stream_frame(5, h2.ErrorCode.PROTOCOL_ERROR) in sent
    one.leave()
