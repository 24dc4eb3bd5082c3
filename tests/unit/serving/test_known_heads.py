"""A head that came before is known again: the requests made of it are those that taking it apart would give."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hpack import Encoder

from oarlock.endpoints.http import Request, Response
from oarlock.http2 import frames as h2
from oarlock.http2.frames import frame, headers_frames

HEADERS = b"Host: h\r\nAccept: a\r\nX-Some: b\r\nX-Some: c\r\n"
BODY = b"Host: h\r\nContent-Length: 3\r\n"

MESSAGES = {
    "the same": b"GET /a?b=c HTTP/1.1\r\n%b\r\n" % HEADERS,
    "another path": b"GET /d HTTP/1.1\r\n%b\r\n" % HEADERS,
    "another method": b"HEAD /a HTTP/1.1\r\n%b\r\n" % HEADERS,
    "HTTP/1.0": b"GET /a HTTP/1.0\r\n%b\r\n" % HEADERS,
    "HTTP/2.0": b"GET /a HTTP/2.0\r\n%b\r\n" % HEADERS,
    "no HTTP": b"GET /a RTSP/1.0\r\n%b\r\n" % HEADERS,
    "two spaces": b"GET  /a HTTP/1.1\r\n%b\r\n" % HEADERS,
    "an unknown method": b"GETS /a HTTP/1.1\r\n%b\r\n" % HEADERS,
    "a method in small letters": b"get /a HTTP/1.1\r\n%b\r\n" % HEADERS,
    "the whole URL": b"GET http://h/a HTTP/1.1\r\n%b\r\n" % HEADERS,
    "an asterisk": b"OPTIONS * HTTP/1.1\r\n%b\r\n" % HEADERS,
    "a line before it": b"\r\nGET /a HTTP/1.1\r\n%b\r\n" % HEADERS,
    "a path of other bytes": b"GET /\xe4 HTTP/1.1\r\n%b\r\n" % HEADERS,
    "a fragment": b"GET /a#b HTTP/1.1\r\n%b\r\n" % HEADERS,
    "two at once": b"GET /a HTTP/1.1\r\n%b\r\n" % HEADERS * 2,
    "a body that wasn't announced": b"GET /a HTTP/1.1\r\n%b\r\nabc" % HEADERS,
    "a body": b"PUT /a HTTP/1.1\r\n%b\r\nxyz" % BODY,
    "half a body": b"PUT /a HTTP/1.1\r\n%b\r\nx" % BODY,
    "more than a body": b"PUT /a HTTP/1.1\r\n%b\r\nxyzGET" % BODY,
    "a body and another request": b"PUT /a HTTP/1.1\r\n%b\r\nxyz" % BODY + b"GET /d HTTP/1.1\r\n%b\r\n" % HEADERS,
    "a request to close": b"GET /a HTTP/1.1\r\nConnection: close\r\n%b\r\n" % HEADERS,
    "a request to keep open": b"GET /a HTTP/1.1\r\nConnection: keep-alive\r\n%b\r\n" % HEADERS,
}


async def echo(request: Request) -> Response:
    """All that a handler can see, and what a handler may do to the headers."""
    seen = f"{request.method} {request.path} {request.query} {sorted(request.headers.items())}"
    text = f"{seen} {list(request.received_headers)} {list(request.all_headers)} ".encode()
    request.headers.pop("accept", None)
    request.replace_header("host", ["changed"])
    return Response(200, [], text + await request.read())


@pytest.mark.parametrize(("first", "second"), [*itertools.product(MESSAGES, repeat=2)])
def test_a_request_over_http1_is_answered_the_same_after_any_other(wire: Any, first: str, second: str) -> None:
    warm, fresh, other = wire(echo), wire(echo), wire(echo)

    warm.service.http1_heads = other.service.http1_heads
    other.feed(MESSAGES[first])
    other.settle()
    warm.feed(MESSAGES[second])
    fresh.feed(MESSAGES[second])
    assert fresh.settle() == warm.settle()
    assert fresh.transport.closed == warm.transport.closed
    for one in (warm, fresh, other):
        one.leave()


def test_the_same_headers_are_taken_apart_once(wire: Any) -> None:
    one = wire(echo)
    for path in (b"/a", b"/b?c", b"/d"):
        one.feed(b"GET %b HTTP/1.1\r\n%b\r\n" % (path, HEADERS))
        one.feed(b"PUT %b HTTP/1.1\r\n%b\r\nxyz" % (path, BODY))
    assert one.settle().count(b"HTTP/1.1 200") == 6
    assert len(one.service.http1_heads) == 2
    one.leave()


HEAD = [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/a"), ("accept", "a")]
HEADS = {
    "the same": HEAD,
    "another path": [*HEAD[:3], (":path", "/b?c=d"), HEAD[4]],
    "the path first": [HEAD[3], *HEAD[:3], HEAD[4]],
    "the path after a header": [*HEAD[:3], HEAD[4], HEAD[3]],
    "two paths": [*HEAD[:4], HEAD[3], HEAD[4]],
    "no path": [*HEAD[:3], HEAD[4]],
    "an empty path": [*HEAD[:3], (":path", ""), HEAD[4]],
    "a space in the path": [*HEAD[:3], (":path", "/a b"), HEAD[4]],
    "a line in the path": [*HEAD[:3], (":path", "/a\nb"), HEAD[4]],
    "another method": [(":method", "HEAD"), *HEAD[1:]],
    "no scheme": [HEAD[0], *HEAD[2:]],
    "another header": [*HEAD, ("te", "gzip")],
    "two cookies": [*HEAD, ("cookie", "a"), ("cookie", "b")],
}


@pytest.mark.parametrize(("first", "second"), [*itertools.product(HEADS, repeat=2)])
def test_a_request_over_http2_is_answered_the_same_after_any_other(wire: Any, first: str, second: str) -> None:
    def request(name: str) -> bytes:
        encoder = Encoder()
        encoder.header_table_size = 0
        return h2.PREFACE + frame(h2.SETTINGS, 0, 0, b"") + headers_frames(1, encoder.encode(HEADS[name]), True)

    warm, fresh, other = wire(echo), wire(echo), wire(echo)
    warm.service.http2_heads = other.service.http2_heads
    other.feed(request(first))
    other.settle()
    warm.feed(request(second))
    fresh.feed(request(second))
    assert fresh.settle() == warm.settle()
    for one in (warm, fresh, other):
        one.leave()
