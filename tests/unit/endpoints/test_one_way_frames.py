"""A WebSocket on which only the server speaks: whatever the client sends, in whatever pieces, and what it reads."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.utilities import LocalProtocolError

from oarlock.endpoints.watching.over_websocket import MOST_IGNORED_BYTES, OneWay

MASK = b"\1\2\3\4"


def frame(first: int, payload: bytes = b"", *, masked: bool = True, claims: int = -1) -> bytes:
    """A frame as a client sends it, of up to 125 bytes; `first` is its first byte, `claims` what it says it has."""
    size = len(payload) if claims < 0 else claims
    if not masked:
        return bytes((first, size)) + payload
    return bytes((first, 0x80 | size)) + MASK + bytes(byte ^ MASK[n % 4] for n, byte in enumerate(payload))


def read(data: bytes) -> list[Event]:
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(data)
    return list(client.events())


def code_of(data: bytes) -> int:
    [event] = read(data)
    assert isinstance(event, CloseConnection)
    return int(event.code)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 1_000_000])
def test_messages_are_read_by_clients(size: int) -> None:
    frames = OneWay()
    text = "é" * (size // 2) + "x" * (size % 2)
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(frames.message(text.encode(), text=True) + frames.message(b"\xff" * size, text=False))
    texts, binary = "", b""
    for event in client.events():
        if isinstance(event, TextMessage):
            texts += event.data
        else:
            assert isinstance(event, BytesMessage)
            binary += event.data
    assert texts == text
    assert binary == b"\xff" * size


def test_pings_are_answered_and_pongs_are_not() -> None:
    frames = OneWay()
    assert read(frames.feed(frame(0x89, b"hello"))) == [Pong(b"hello")]
    assert frames.feed(frame(0x8A, b"hello")) == b""
    assert read(frames.ping()) == [Ping(b"")]


@pytest.mark.parametrize(("payload", "code"), [(b"", 1005), (b"\x03\xe9", 1001), (b"\x0f\xa0bye", 4000)])
def test_a_close_is_answered_with_the_same_code(payload: bytes, code: int) -> None:
    frames = OneWay()
    answer = frames.feed(frame(0x88, payload) + frame(0x89, b"too late"))
    assert code_of(answer) == code
    assert frames.over
    assert frames.closing
    assert frames.message(b"x", text=True) == frames.ping() == frames.close() == b""
    assert frames.feed(frame(0x89, b"x")) == b""


def test_the_answer_to_our_close_is_not_answered() -> None:
    frames = OneWay()
    assert code_of(frames.close(1001, "leaving")) == 1001
    assert frames.feed(frame(0x89, b"x")) == b""
    assert not frames.over
    assert frames.feed(frame(0x88, b"\x03\xe9")) == b""
    assert frames.over


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(0x81, b"x", masked=False), 1002),
        (frame(0xC1, b"x"), 1002),
        (frame(0x83, b"x"), 1002),
        (frame(0x8B, b"x"), 1002),
        (frame(0x09, b"x"), 1002),
        (frame(0x89, b"x", claims=126), 1002),
        (frame(0x88, b"x", claims=127), 1002),
    ],
)
def test_broken_rules_are_told(data: bytes, code: int) -> None:
    frames = OneWay()
    assert code_of(frames.feed(data)) == code
    assert frames.over


def test_what_is_ignored_has_a_bound() -> None:
    frames = OneWay()
    head = bytes((0x82, 0x80 | 127)) + (2**62).to_bytes(8, "big") + MASK
    assert frames.feed(head) == b""
    piece = b"x" * 65_536
    tracemalloc.start()
    for _ in range(MOST_IGNORED_BYTES // len(piece) - 1):
        assert frames.feed(piece) == b""
    assert code_of(frames.feed(piece)) == 1008
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * len(piece)  # nothing of it was kept


@st.composite
def client_says(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """What a client sends, in frames of any kind, and the pings among them."""
    client, sent, pings = Connection(ConnectionType.CLIENT), b"", []
    for _ in range(draw(st.integers(0, 8))):
        event: Event
        match draw(st.integers(0, 3)):
            case 0:
                event = TextMessage(data=draw(st.text(max_size=300)), message_finished=draw(st.booleans()))
            case 1:
                event = BytesMessage(data=draw(st.binary(max_size=70_000)), message_finished=draw(st.booleans()))
            case 2:
                event = Ping(draw(st.binary(max_size=125)))
            case _:
                event = Pong(draw(st.binary(max_size=125)))
        try:
            sent += client.send(event)
        except (LocalProtocolError, TypeError):
            continue  # a text in the middle of a binary message
        if isinstance(event, Ping):
            pings.append(bytes(event.payload))
    return sent, pings


@given(client_says(), st.lists(st.integers(0, 80_000), max_size=6), st.booleans())
def test_only_pings_are_answered_whatever_is_sent_and_however_it_is_cut(
    said: tuple[bytes, list[bytes]], cuts: list[int], closes: bool
) -> None:
    sent, pings = said
    if closes:
        sent += frame(0x88, b"\x03\xe8")
    places = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    frames = OneWay()
    answers = b"".join(frames.feed(sent[start:end]) for start, end in itertools.pairwise(places))
    found = read(answers)
    assert [bytes(event.payload) for event in found if isinstance(event, Pong)] == pings
    assert [type(event) for event in found[len(pings) :]] == ([CloseConnection] if closes else [])
    assert frames.over is closes


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_rubbish_is_answered_alike_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    whole, pieces = OneWay(), OneWay()
    assert whole.feed(data) == b"".join(pieces.feed(data[start:end]) for start, end in itertools.pairwise(places))
    assert whole.over is pieces.over
