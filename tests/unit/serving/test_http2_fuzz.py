"""HTTP/2 under fire: conversations of a correct client come out right, and no frame does harm."""

from __future__ import annotations

import asyncio
import gc
import itertools
import tracemalloc
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hpack import Encoder
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.endpoints.http import BodyTooLarge, Request, Response
from oarlock.http2.frames import (
    data_frame,
    frame,
    headers_frames,
    rst_stream_frame,
    window_update_frame,
)

pytestmark = pytest.mark.slow

SETTINGS = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = [(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", "/")]


async def handler(request: Request) -> Response:
    """Echo many times over, sometimes after a turn of the loop, sometimes in pieces."""
    try:
        body = b"" if request.path == "/unread" else await request.read()
    except BodyTooLarge:
        return Response(413, [], b"too large")
    if request.path == "/later":
        await asyncio.sleep(0)
    text = (request.path.encode() + body) * 300
    if request.path == "/stream":

        def write(stream: Any) -> None:
            for start in range(0, len(text), 1000):
                stream.write(text[start : start + 1000])
            asyncio.get_running_loop().call_soon(stream.close)

        return Response(200, [], stream=write)
    return Response(200, [], text)


class Talk:
    """A correct client: h2 raises when the server breaks a rule, its windows included."""

    def __init__(self, wire: Any, window: int) -> None:
        self.wire = wire
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.h2.local_settings = h2.settings.Settings(
            client=True, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window}
        )
        self.h2.initiate_connection()
        self.read = 0
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.owed: dict[int, int] = {}

    def exchange(self, cuts: list[int]) -> None:
        data = self.h2.data_to_send()
        places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
        for begin, end in itertools.pairwise(places):
            self.wire.feed(data[begin:end])
        written = self.wire.settle()
        fresh, self.read = written[self.read :], len(written)
        for event in self.h2.receive_data(fresh):
            if isinstance(event, h2.events.DataReceived):
                self.bodies[event.stream_id] += event.data
                self.owed[event.stream_id] = self.owed.get(event.stream_id, 0) + event.flow_controlled_length
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
            assert not isinstance(event, h2.events.ConnectionTerminated)

    def acknowledge(self) -> None:
        for stream_id, size in self.owed.items():
            if size:
                self.h2.acknowledge_received_data(size, stream_id)
        self.owed.clear()


@SETTINGS
@given(
    window=st.sampled_from([1000, 16_384, 65_535, 200_000]),
    requests=st.lists(
        st.tuples(
            st.sampled_from(["/", "/later", "/stream", "/unread"]),
            st.binary(max_size=60),
            st.sampled_from(["keep", "keep", "keep", "reset"]),
            st.integers(0, 20),
        ),
        max_size=8,
    ),
    cuts=st.lists(st.integers(0, 500), max_size=4),
)
def test_a_conversation_comes_out_right(wire: Any, window: int, requests: Any, cuts: list[int]) -> None:
    talk = Talk(wire(handler), window)
    kept: dict[int, bytes] = {}
    for path, body, fate, padding in requests:
        stream_id = talk.h2.get_next_available_stream_id()
        talk.bodies[stream_id] = b""
        talk.h2.send_headers(stream_id, [*HEAD[:3], (":path", path)])
        if fate == "reset":
            talk.h2.reset_stream(stream_id)
        else:
            talk.h2.send_data(stream_id, body, end_stream=True, pad_length=padding or None)
            kept[stream_id] = (path.encode() + (b"" if path == "/unread" else body)) * 300
        if padding % 3 == 0:
            talk.exchange(cuts)
        if padding % 5 == 0:
            talk.h2.ping(b"12345678")
    for _ in range(500):
        talk.exchange(cuts)
        if talk.ended >= kept.keys():
            break
        talk.acknowledge()
    assert talk.ended == kept.keys()
    assert {stream_id: talk.bodies[stream_id] for stream_id in kept} == kept
    connection = talk.wire.connection
    assert not connection._streams
    assert connection.out.pending == 0
    assert connection._header_bytes == 0
    assert connection._granted == 0
    talk.wire.leave()


@SETTINGS
@given(
    count=st.integers(1, 300),
    cookies=st.lists(st.sampled_from(["a=1", "b=2", "c=" + "x" * 200]), max_size=5),
    cuts=st.lists(st.integers(0, 20_000), max_size=4),
)
def test_a_burst_is_answered_whole_in_as_many_turns_as_it_takes(
    wire: Any, count: int, cookies: list[str], cuts: list[int]
) -> None:
    seen: list[tuple[str, str | None]] = []

    async def takes(request: Request) -> Response:
        seen.append((request.path, request.headers.get("cookie")))
        return Response(204, [])

    one = wire(takes, max_concurrent_streams=400)
    encoder = Encoder()
    data = PREFACE + frame(4, 0, 0, b"")
    for n in range(count):
        head = [*HEAD[:3], (":path", f"/{n}"), *[("cookie", cookie) for cookie in cookies]]
        data += headers_frames(2 * n + 1, encoder.encode(head), True)
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    for begin, end in itertools.pairwise(places):
        one.feed(data[begin:end])
    one.settle()
    assert seen == [(f"/{n}", "; ".join(cookies) if cookies else None) for n in range(count)]
    assert one.transport.reading
    assert not one.connection._streams
    assert one.connection._header_bytes == 0
    one.leave()


BLOCK = Encoder().encode(HEAD)
FRAMES = st.one_of(
    st.builds(
        frame,
        st.integers(0, 12),
        st.sampled_from([0, 1, 4, 5, 8, 0x20, 0x2D, 255]),
        st.sampled_from([0, 1, 2, 3, 5, 7, 2**31 - 1]),
        st.binary(max_size=30),
    ),
    st.builds(
        lambda n, flags: frame(1, flags, 2 * n + 1, BLOCK),
        st.integers(0, 8),
        st.sampled_from([4, 5, 0, 1]),
    ),
    st.builds(
        lambda n, size, end: data_frame(2 * n + 1, b"x" * size, end),
        st.integers(0, 8),
        st.integers(0, 300),
        st.booleans(),
    ),
    st.builds(lambda n, by: window_update_frame(n, by), st.integers(0, 8), st.sampled_from([1, 1000, 2**31 - 1])),
    st.builds(
        lambda code, value: frame(4, 0, 0, code.to_bytes(2, "big") + value.to_bytes(4, "big")),
        st.integers(1, 8),
        st.sampled_from([0, 1, 100, 16_384, 65_535, 2**31 - 1, 2**32 - 1]),
    ),
    st.builds(lambda n, code: rst_stream_frame(2 * n + 1, code), st.integers(0, 8), st.integers(0, 14)),
)


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    frames=st.lists(FRAMES, max_size=25),
    cuts=st.lists(st.integers(0, 2000), max_size=6),
    garbage=st.binary(max_size=20),
)
def test_no_frames_do_harm(wire: Any, caplog: Any, frames: list[bytes], cuts: list[int], garbage: bytes) -> None:
    caplog.clear()
    one = wire(handler, max_concurrent_streams=4)
    data = PREFACE + frame(4, 0, 0, b"") + b"".join(frames) + garbage
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    for begin, end in itertools.pairwise(places):
        one.feed(data[begin:end])
    written = one.settle()
    kinds = []
    while written:
        size = int.from_bytes(written[:3], "big")
        kinds.append(written[3])
        assert size <= 16_384
        written = written[9 + size :]
    assert kinds[0] == 4
    connection = one.connection
    if one.transport.closed:
        assert 7 in kinds
    else:
        assert 7 not in kinds or connection._final is not None
        assert len(connection._streams) <= 4
    assert "could not be understood" not in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"], caplog.text
    one.leave()
    assert not connection._streams


@SETTINGS
@given(data=st.binary(max_size=300))
def test_no_bytes_do_harm(wire: Any, caplog: Any, data: bytes) -> None:
    for begins in (b"", PREFACE, PREFACE + frame(4, 0, 0, b"")):
        one = wire(handler)
        one.feed(begins + data)
        one.settle()
        one.leave()
    assert "could not be understood" not in caplog.text


def test_a_long_connection_of_odd_frames_takes_no_memory(wire: Any) -> None:
    """Streams that are reset while they wait for a window, bodies nobody reads, header blocks with new names."""
    one = wire(handler, resets_per_s=1e9, control_frames_per_s=1e9)
    one.feed(PREFACE + frame(4, 0, 0, b"\0\4\0\0\0\0"))
    encoder = Encoder()
    ids = itertools.count(1, 2)

    def odd_round() -> None:
        reset, waiting, answered = next(ids), next(ids), next(ids)
        one.clock.seconds += 1
        head = [*HEAD, (f"x-{reset}", "y" * 100), ("cookie", f"a={reset}")]
        data = headers_frames(reset, encoder.encode(head), False) + data_frame(reset, b"z" * 50, False)
        data += rst_stream_frame(reset, 8) + data_frame(reset, b"z" * 500, False) + window_update_frame(reset, 9)
        data += headers_frames(waiting, encoder.encode(HEAD), True) + window_update_frame(waiting, 5)
        data += headers_frames(answered, encoder.encode([*HEAD, ("A", "malformed")]), True)
        data += frame(0xEE, 0, 0, b"unknown") + frame(2, 0, waiting, b"\0\0\0\0\1") + frame(6, 0, 0, b"12345678")
        one.feed(data + frame(4, 0, 0, b"\0\4\0\0\0\1\x12\x34\0\0\0\1") + frame(4, 0, 0, b"\0\4\0\0\0\0"))
        one.feed(rst_stream_frame(waiting, 8))
        one.transport.written.clear()

    tracemalloc.start()
    try:
        for _ in range(500):  # until what is remembered is remembered
            odd_round()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(500):
            odd_round()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not one.transport.closed
    assert after - before < 10_000  # of 1,500 streams
    one.leave()
