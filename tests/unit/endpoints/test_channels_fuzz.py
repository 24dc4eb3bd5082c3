"""WebSockets under fire: whatever comes, in whatever pieces, ends with the right code, and the same."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from thoroughness import examples
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from oarlock.endpoints.channels.over_pipe import GONE, Ending
from oarlock.endpoints.channels.over_websocket import WebSocketChannels
from oarlock.endpoints.channels.upgrades import SUPPORTED
from oarlock.endpoints.channels.websocket_frames import WINDOW_BYTES
from oarlock.server.local.streams import MemoryTunnel

pytestmark = pytest.mark.slow

SETTINGS = examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
V5, V4, BASE64 = SUPPORTED["v5.channel.k8s.io"], SUPPORTED["v4.channel.k8s.io"], SUPPORTED["v4.base64.channel.k8s.io"]

OPEN, GOODBYE = -1, 0
"""How it stands after all was fed, beside the codes of a Close: still open; the client has said goodbye."""


@pytest.fixture(autouse=True)
def _nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.WARNING)
    yield
    assert caplog.records == []


def frame(opcode: int, payload: bytes, *, fin: bool = True, mask: bytes | None = b"\1\2\3\4", size: int = -1) -> bytes:
    """A frame as a client sends it; `size` is what it claims to have."""
    claimed = len(payload) if size < 0 else size
    flag = 0x80 if mask is not None else 0
    head = bytes((opcode | (0x80 if fin else 0),))
    if claimed < 126:
        head += bytes((flag | claimed,))
    elif claimed < 1 << 16:
        head += bytes((flag | 126,)) + claimed.to_bytes(2, "big")
    else:
        head += bytes((flag | 127,)) + claimed.to_bytes(8, "big")
    if mask is None:
        return head + payload
    return head + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))


BINARY, TEXT, GO_ON, CLOSE, PING, PONG = 2, 1, 0, 8, 9, 10


class Heard:
    """What became of it: what each channel got, how it ended, what was sent."""

    def __init__(self) -> None:
        self.channels: dict[int, bytes] = {}
        self.endings: list[Ending] = []
        self.stands: list[Ending] = []
        """The endings there were before the connection was taken down."""
        self.sent: list[Any] = []

    @property
    def code(self) -> int:
        closes = [int(event.code) for event in self.sent if isinstance(event, CloseConnection)]
        assert len(closes) <= 1
        assert len(self.endings) <= 1
        if not self.stands:
            assert closes == []
            return OPEN
        if self.stands[0] is GONE:
            return GOODBYE
        assert closes == [self.stands[0].code]
        return closes[0]

    @property
    def outcome(self) -> tuple[int, dict[int, bytes], list[Any]]:
        return self.code, self.channels, self.sent


def hear(pieces: Sequence[bytes], agreed: Any = V5, numbered: int = 0, *, read: bool = True) -> Heard:
    """Feed `pieces` to a connection whose channels are all read, unless they aren't."""
    heard = Heard()

    async def run() -> None:
        tunnel = MemoryTunnel()
        channels = WebSocketChannels(agreed, numbered, lambda: None)
        channels.start(tunnel, heard.endings.append)

        async def listen(number: int) -> None:
            async for data in channels[number]:
                heard.channels[number] = heard.channels.get(number, b"") + data

        readers = [asyncio.ensure_future(listen(n)) for n in range(numbered or 5)] if read else []
        for piece in pieces:
            tunnel.to_server.put(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        client = Connection(ConnectionType.CLIENT)
        if tunnel.to_client.size:
            client.receive_data(await tunnel.to_client.take())
        # the first message says that the connection is there
        heard.sent = [e for e in client.events() if not (isinstance(e, BytesMessage) and e.data == b"\1")]
        heard.stands = list(heard.endings)
        channels.finish(heard.endings[0] if heard.endings else GONE)
        tunnel.close()
        await asyncio.gather(*readers)
        assert channels._reading is not None
        await asyncio.wait_for(channels._reading, 60)

    asyncio.run(run())
    return heard


HOSTILE: list[tuple[str, bytes, int]] = [
    ("not masked", frame(BINARY, b"\0x", mask=None), 1002),
    ("no such opcode", frame(3, b"\0x"), 1002),
    ("no such control opcode", frame(11, b""), 1002),
    ("a reserved bit", bytes((0xC2,)) + frame(BINARY, b"\0x")[1:], 1002),
    ("a ping in fragments", frame(PING, b"", fin=False), 1002),
    ("a ping too long", frame(PING, b"x" * 126), 1002),
    ("goes on with nothing", frame(GO_ON, b"\0x"), 1002),
    ("begins within another", frame(BINARY, b"\0x", fin=False) + frame(BINARY, b"\0y"), 1002),
    ("a length in too many bytes", bytes((0x82, 0xFE, 0, 1)) + b"mask" + b"x", 1002),
    ("a length with its highest bit", bytes((0x82, 0xFF)) + b"\xff" * 8 + b"mask", 1002),
    ("no UTF-8", frame(TEXT, b"\0\xff"), 1007),
    ("half of UTF-8", frame(TEXT, b"\0\xc3"), 1007),
    ("channel 5 of a terminal", frame(BINARY, b"\5x"), 1008),
    ("channel 254", frame(BINARY, b"\xfe"), 1008),
    ("channel 48", frame(TEXT, b"0x"), 1008),
    ("closes nothing", frame(BINARY, b"\xff"), 1002),
    ("closes two", frame(BINARY, b"\xff\0\1"), 1002),
    ("closes what isn't there", frame(BINARY, b"\xff\7"), 1008),
    ("a close with half a code", frame(CLOSE, b"\3"), 1002),
    ("a close with a code nobody sends", frame(CLOSE, (1006).to_bytes(2, "big")), 1002),
    ("a close with an unknown code", frame(CLOSE, (999).to_bytes(2, "big")), 1002),
    ("a close whose reason is no text", frame(CLOSE, (1000).to_bytes(2, "big") + b"\xff"), 1007),
    ("a goodbye", frame(CLOSE, (1000).to_bytes(2, "big") + b"bye"), GOODBYE),
    ("a goodbye without a code", frame(CLOSE, b""), GOODBYE),
    ("a goodbye with a code of one's own", frame(CLOSE, (4321).to_bytes(2, "big")), GOODBYE),
    ("nothing on no channel", frame(BINARY, b""), OPEN),
    ("nothing on a channel", frame(BINARY, b"\0"), OPEN),
    ("what only the server says", frame(BINARY, b"\1x") + frame(BINARY, b"\3{}"), OPEN),
    ("no size", frame(BINARY, b"\4{}") + frame(BINARY, b"\4" + b"[" * 5000), OPEN),
    ("a pong nobody asked for", frame(PONG, b"x"), OPEN),
]


@pytest.mark.parametrize(("sent", "code"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_hostile_frames_are_answered_with_the_right_code(sent: bytes, code: int) -> None:
    before, after = frame(BINARY, b"\0before"), frame(BINARY, b"\0after")
    whole = hear([before + sent + after])
    assert whole.code == code
    assert whole.channels[0].startswith(b"before")
    assert whole.channels[0].endswith(b"after") == (code == OPEN)
    for cut in range(1, len(before + sent) + 1):
        data = before + sent + after
        assert hear([data[:cut], data[cut:]]).outcome == whole.outcome


def test_a_message_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarlock.endpoints.channels.websocket_frames.MAX_MESSAGE_BYTES", 1000)
    assert hear([frame(BINARY, b"\0" + b"x" * 999)]).channels == {0: b"x" * 999}
    assert hear([frame(BINARY, b"\0" + b"x" * 1000)]).code == 1009
    many = [frame(BINARY, b"\0", fin=False), *[frame(GO_ON, b"y" * 100, fin=False)] * 10]
    assert hear(many).code == 1009
    claimed = frame(BINARY, b"\0" + b"x" * 1500, size=1 << 40)
    assert hear([claimed]).code == 1009
    assert hear([frame(BINARY, b"\0" + b"x" * 999)] * 3).code == OPEN  # each message for itself


@pytest.mark.parametrize("text", [b"0QQ", b"0Q", b"0QQ=x", b"0!!!!", b"/QUJD"])
def test_what_is_no_base64(text: bytes) -> None:
    assert hear([frame(TEXT, text)], BASE64).code == (1008 if text[:1] == b"/" else 1007)


def test_an_older_protocol_has_no_close_signal() -> None:
    assert hear([frame(BINARY, b"\xff\0")], V4).code == 1008


def test_a_channel_that_was_closed_hears_nothing_more() -> None:
    sent = [frame(BINARY, b"\0a"), frame(BINARY, b"\xff\0"), frame(BINARY, b"\0b")]
    assert hear(sent).channels == {0: b"a"}


def test_what_nobody_reads_stays_outside() -> None:
    message = frame(BINARY, b"\0" + b"x" * 60_000)

    async def run() -> int:
        tunnel = MemoryTunnel()
        channels = WebSocketChannels(V5, 0, lambda: None)
        channels.start(tunnel, lambda ending: None)
        for _ in range(40):
            tunnel.to_server.put(message)
            for _ in range(50):
                await asyncio.sleep(0)
        left = tunnel.to_server.size
        channels.finish(GONE)
        assert channels._reading is not None
        await asyncio.wait_for(channels._reading, 60)
        return left

    assert asyncio.run(run()) > 40 * 60_000 - WINDOW_BYTES - 2 * len(message)


def test_pings_are_answered_in_order() -> None:
    heard = hear([frame(PING, b"1") + frame(BINARY, b"\0x", fin=False) + frame(PING, b"2") + frame(GO_ON, b"y")])
    assert [bytes(event.payload) for event in heard.sent] == [b"1", b"2"]
    assert heard.channels == {0: b"xy"}


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    """What a client may say, with things it may not."""
    said = b""
    for _ in range(draw(st.integers(1, 6))):
        channel = draw(st.sampled_from([0, 0, 0, 1, 4, 5, 255]))
        payload = bytes((channel,)) + draw(st.binary(max_size=30))
        kind = draw(st.sampled_from(["whole", "whole", "fragments", "ping", "broken", "close", "garbage"]))
        mask = draw(st.binary(min_size=4, max_size=4))
        match kind:
            case "whole":
                said += frame(draw(st.sampled_from([BINARY, TEXT])), payload, mask=mask)
            case "fragments":
                cut = draw(st.integers(0, len(payload)))
                said += frame(BINARY, payload[:cut], fin=False, mask=mask) + frame(GO_ON, payload[cut:], mask=mask)
            case "ping":
                said += frame(PING, payload[:100], mask=mask)
            case "broken":
                said += frame(draw(st.integers(0, 15)), payload, fin=draw(st.booleans()), mask=None)
            case "close":
                said += frame(CLOSE, draw(st.binary(max_size=6)), mask=mask)
            case _:
                said += draw(st.binary(max_size=12))
    return said


@SETTINGS
@given(conversations(), st.lists(st.integers(0, 400), max_size=6), st.sampled_from([V5, V4, BASE64]), st.booleans())
def test_whatever_comes_ends_the_same_in_whatever_pieces(said: bytes, cuts: list[int], agreed: Any, own: bool) -> None:
    numbered = 6 if own else 0
    whole = hear([said], agreed, numbered)
    assert whole.code in (OPEN, GOODBYE, 1002, 1007, 1008)
    places = [0, *sorted({cut % (len(said) + 1) for cut in cuts}), len(said)]
    pieces = [said[start:end] for start, end in itertools.pairwise(places)]
    cut = hear(pieces, agreed, numbered)
    if whole.code <= 0:
        assert cut.sent == whole.sent
    assert cut.code == whole.code or min(cut.code, whole.code) > 0  # what is wrong in two ways may be told either
    for channel in {
        *cut.channels,
        *whole.channels,
    }:  # of a message that goes wrong more or less may have been handed on
        one, other = cut.channels.get(channel, b""), whole.channels.get(channel, b"")
        assert one == other or (whole.code > 0 and (one.startswith(other) or other.startswith(one)))


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=200)), max_size=8), st.sampled_from([V5, V4, BASE64]))
def test_everything_that_is_sent_arrives(messages: list[tuple[int, bytes]], agreed: Any) -> None:
    client = Connection(ConnectionType.CLIENT)
    wanted: dict[int, bytes] = {}
    sent = b""
    for channel, data in messages:
        payload = agreed.message(channel, data)
        event: Any = TextMessage(data=payload) if isinstance(payload, str) else BytesMessage(data=payload)
        sent += client.send(event)
        if data:
            wanted[channel] = wanted.get(channel, b"") + data
    heard = hear([sent, client.send(Ping())], agreed, numbered=6)
    assert heard.channels == wanted
    assert heard.code == OPEN


def test_what_is_written_is_what_clients_read() -> None:
    async def run(agreed: Any, write: Callable[[Any], Any]) -> list[Any]:
        tunnel = MemoryTunnel()
        channels = WebSocketChannels(agreed, 6, lambda: None)
        channels.start(tunnel, lambda ending: None)
        writing = asyncio.ensure_future(write(channels))
        client = Connection(ConnectionType.CLIENT)
        while not writing.done():
            client.receive_data(await tunnel.to_client.take())
            await asyncio.sleep(0)
        await writing
        channels.finish(Ending())
        client.receive_data(await tunnel.to_client.take())
        tunnel.close()
        return list(client.events())

    async def large(channels: Any) -> None:
        await channels[2].write(memoryview(b"z" * 100_000))
        with pytest.raises(TypeError, match="a channel takes bytes"):
            await channels[2].write("text")

    events = asyncio.run(run(V5, large))
    *messages, end = events
    assert b"".join(bytes(message.data) for message in messages).replace(b"\2", b"") == b"z" * 100_000
    assert int(end.code) == 1000


class _Broken(MemoryTunnel):
    """Can't be read from."""

    async def read(self) -> bytes:
        raise RuntimeError("broken")


def test_a_mistake_of_ours_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> tuple[list[Ending], bool]:
        tunnel, endings = _Broken(), list[Ending]()
        channels = WebSocketChannels(V5, 0, lambda: None)
        channels.start(tunnel, endings.append)
        assert channels._reading is not None
        await channels._reading
        return endings, tunnel.aborted

    assert asyncio.run(run()) == ([GONE], True)
    assert "could not be read any further" in caplog.text
    caplog.clear()
