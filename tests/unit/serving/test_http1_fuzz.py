"""HTTP/1.1 under fire: whatever comes, in whatever pieces, is answered clearly and the same."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from httptools import HttpResponseParser
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.endpoints.http import BodyTooLarge, Request, Response

pytestmark = pytest.mark.slow

SETTINGS = examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture])


async def handler(request: Request) -> Response:
    """Echo, sometimes after a turn of the loop, sometimes in pieces."""
    try:
        body = b"" if request.path == "/unread" else await request.read()
    except BodyTooLarge:
        return Response(413, [], b"too large")
    if request.path == "/later":
        await asyncio.sleep(0)
    text = f"{request.method} {request.path}?{request.query} ".encode() + body
    if request.path == "/stream":

        def write(stream: Any) -> None:
            stream.write(text)
            asyncio.get_running_loop().call_soon(stream.close)

        return Response(200, [], stream=write)
    return Response(200, [], text)


class Answers:
    def __init__(self) -> None:
        self.seen: list[tuple[int, bytes]] = []
        self.names: set[bytes] = set()
        self.body = b""

    def on_message_begin(self) -> None:
        self.names = set()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.names.add(name)

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.seen.append((self.parser.get_status_code(), self.body))
        self.body = b""


def parse(data: bytes) -> list[tuple[int, bytes]]:
    """The answers in `data`; fails when it is anything but whole answers."""
    answers = Answers()
    answers.parser = HttpResponseParser(answers)  # type: ignore[attr-defined]
    answers.parser.feed_data(data)  # type: ignore[attr-defined]
    if answers.body:
        assert not answers.names & {b"content-length", b"transfer-encoding"}
        answers.on_message_complete()  # an answer over HTTP/1.0 may end with its connection
    return answers.seen


PATHS = st.sampled_from(["/", "/later", "/stream", "/unread", "/a?b=c"])


@st.composite
def good_requests(draw: st.DrawFn) -> bytes:
    path = draw(PATHS)
    body = draw(st.binary(max_size=40))
    how = draw(st.sampled_from(["none", "length", "chunked"]))
    filler = "".join(f"x-{n}: {'y' * draw(st.integers(0, 30))}\r\n" for n in range(draw(st.integers(0, 3))))
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\n{filler}"
    if how == "none":
        return f"{head}\r\n".encode()
    if how == "length":
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    size = draw(st.integers(1, 20))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(places)]


CUTS = st.lists(st.integers(0, 2000), max_size=8)


@SETTINGS
@given(before=st.lists(good_requests(), max_size=4), after=good_requests(), line=st.integers(0, 5), cuts=CUTS)
def test_a_line_that_is_not_http_is_refused_wherever_it_stands(
    wire: Any, before: list[bytes], after: bytes, line: int, cuts: list[int]
) -> None:
    """Another request with the same line, but HTTP's, is before and behind it."""
    lines = [
        b"GET / RTSP/1.0",
        b"POST /  HTTP/1.1",
        b"POST  / HTTP/1.1",
        b"SOURCE / ICE/1.0",
        b"OPTIONS / RTSP/1.1",
        b"GET /",
    ]
    twin = b"POST / HTTP/1.1\r\nHost: h\r\n\r\n"
    data = b"".join([*before, twin, lines[line], b"\r\nHost: h\r\n\r\n", twin, after])
    one = wire(handler)
    for piece in split(data, cuts):
        one.feed(piece)
    answers = parse(one.settle())
    assert [status for status, _ in answers] == [200] * (len(before) + 1) + [400]
    assert one.transport.closed
    one.leave()


@SETTINGS
@given(requests=st.lists(good_requests(), max_size=6), cuts=CUTS)
def test_a_pipeline_is_answered_the_same_however_it_is_cut(wire: Any, requests: list[bytes], cuts: list[int]) -> None:
    data = b"".join(requests)
    whole, cut = wire(handler), wire(handler)
    whole.feed(data)
    for piece in split(data, cuts):
        cut.feed(piece)
    answers = parse(whole.settle())
    assert parse(cut.settle()) == answers
    assert len(answers) == len(requests)
    assert all(status == 200 for status, _ in answers)
    for one in (whole, cut):
        assert not one.transport.closed
        one.leave()


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    data = bytearray(b"".join(draw(st.lists(good_requests(), min_size=1, max_size=4))))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        what = draw(st.sampled_from(["byte", "delete", "insert", "line"]))
        if what == "byte" and place < len(data):
            data[place] = draw(st.integers(0, 255))
        elif what == "delete":
            del data[place : place + draw(st.integers(1, 10))]
        elif what == "line":
            other = draw(st.sampled_from([b" RTSP/1.0", b" ICE/1.0", b"  HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0", b""]))
            found = data.find(b" HTTP/1.1", place)
            if found >= 0:
                data[found : found + 9] = other
        else:
            data[place:place] = draw(
                st.sampled_from(
                    [b"\r\n", b"\n", b"\r", b":", b" ", b"\0", b"Content-Length: 5\r\n", b"\r\n\r\n", b"0\r\n\r\n"]
                )
            )
    return bytes(data)


@SETTINGS
@given(data=st.one_of(broken(), st.binary(max_size=200)), cuts=CUTS)
def test_what_is_broken_gets_whole_answers_and_then_the_end(wire: Any, data: bytes, cuts: list[int]) -> None:
    one = wire(handler)
    for piece in split(data, cuts):
        one.feed(piece)
    answers = parse(one.settle())
    refused = [status for status, _ in answers if status not in (200, 413)]
    assert len(refused) <= 1
    if refused:
        assert refused[0] in (400, 405, 417, 431, 501, 505)
        assert answers[-1][0] == refused[0]
        assert one.transport.closed
    one.leave()


@SETTINGS
@given(data=broken(), cuts=CUTS)
def test_what_is_broken_is_answered_the_same_however_it_is_cut(wire: Any, data: bytes, cuts: list[int]) -> None:
    data = data.replace(b"/unread", b"/?read!")  # what is answered before it broke depends on the pieces
    whole, cut = wire(handler), wire(handler)
    whole.feed(data)
    for piece in split(data, cuts):
        cut.feed(piece)
    statuses = [status for status, _ in parse(whole.settle())]
    assert [status for status, _ in parse(cut.settle())] == statuses
    whole.leave()
    cut.leave()
