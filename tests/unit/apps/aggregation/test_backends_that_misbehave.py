"""Connections to backends that hang, lie, flood or die: bounded, told as errors, and never mixed up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripted_backend import Answer, Asked, ScriptedBackend, as_json, newest

from oarlock.apps.aggregation.forward import fetch
from oarlock.net.connecting import Address
from oarlock.net.http1 import Http1ClientConnection
from oarlock.net.messages import MOST_BUFFERED, HttpError, HttpRequest, HttpResponse
from oarlock.net.pool import HTTP1, HttpPool

pytestmark = pytest.mark.anyio

REQUEST = HttpRequest("GET", "x", "/a")


def raw(*pieces: bytes, close: bool = False) -> Answer:
    async def answer(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if close:
            raise ConnectionResetError

    return answer


class Reached:
    """A backend and a pool of connections to it."""

    def __init__(self, backend: ScriptedBackend) -> None:
        self.backend = backend
        tls = backend.client_context()
        self.pool = HttpPool(newest([tls]), protocols=(HTTP1,))
        self.address = Address("127.0.0.1", backend.port, "echo.default.svc")

    async def get(self, most_bytes: int = 1 << 20) -> bytes:
        answer = await fetch(self.pool, self.address, "/a", "application/json", most_bytes=most_bytes)
        return answer.body

    async def ask(self, request: HttpRequest = REQUEST) -> HttpResponse:
        return await self.pool.ask(self.address, request)

    @property
    def idle(self) -> list[Http1ClientConnection]:
        """The connections that may carry another request."""
        return [one for kept in self.pool._kept.values() for _, one in kept.idle if one.reusable]


@pytest.fixture
async def reached(tmp_path: Path) -> AsyncIterator[Reached]:
    one = Reached(await ScriptedBackend().start(tmp_path))
    async with asyncio.timeout(60):
        yield one
    one.pool.close()
    await one.backend.stop()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (raw(b"SSH-2.0-OpenSSH\r\n\r\n"), "malformed HTTP response"),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n"), "malformed HTTP response"),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", close=True), "unexpected EOF"),
        (raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n"), "malformed HTTP response"),
        (raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", close=True), "unexpected EOF"),
        (raw(b"HTTP/1.1 200 OK\r\nx: ", *[b"y" * 65_536] * 10), "goes on and on"),
        (raw(close=True), "EOF"),
    ],
)
async def test_what_isnt_an_answer_is_an_error(reached: Reached, answer: Answer, told: str) -> None:
    reached.backend.answer = answer
    with pytest.raises(HttpError, match=told):
        await reached.get()


async def test_an_answer_without_length_ends_with_the_connection(reached: Reached) -> None:
    reached.backend.answer = raw(b"HTTP/1.1 200 OK\r\n\r\nall", close=True)
    assert await reached.get() == b"all"


async def test_an_interim_answer_is_passed_over(reached: Reached) -> None:
    reached.backend.answer = raw(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + as_json({}))
    assert await reached.get() == b"{}"


async def test_a_document_is_read_to_its_bound(reached: Reached) -> None:
    async def flood(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)

    reached.backend.answer = flood
    with pytest.raises(HttpError, match="over 1048576 bytes"):
        await reached.get()


async def test_an_answer_is_read_as_fast_as_its_reader(reached: Reached) -> None:
    sent, full = 0, asyncio.Event()

    async def flood(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            sent += 65_536
            try:
                await asyncio.wait_for(writer.drain(), 0.5)
            except TimeoutError:
                full.set()
                return

    reached.backend.answer = flood
    answer = await reached.ask()
    await full.wait()
    assert answer.buffered < 4 * MOST_BUFFERED
    assert len(await answer.piece()) >= MOST_BUFFERED
    answer.close()
    assert not reached.idle


async def test_who_gives_up_cuts_the_connection(reached: Reached) -> None:
    silent = asyncio.Event()

    async def hang(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent.set()
        await asyncio.Event().wait()

    reached.backend.answer = hang
    asking = asyncio.ensure_future(reached.get())
    await silent.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    reached.backend.answer = raw(as_json({"next": True}))
    assert await reached.get() == b'{"next":true}'


async def test_what_follows_an_answer_is_nobodys(reached: Reached) -> None:
    """A second answer that nobody asked for doesn't reach who comes next."""
    reached.backend.answer = raw(as_json({"n": 1}) + as_json({"n": "stale"}))
    await reached.ask()
    reached.backend.answer = raw(as_json({"n": 2}))
    assert await (await reached.ask()).read(1000) == b'{"n":2}'


@pytest.mark.parametrize(
    "surplus",
    [
        as_json({"n": "SMUGGLED"}),
        b"SMUGGLED",
        b"HTTP/1.1 200 OK\r\n\r\nSMUGGLED",
        b"HTTP/1.1 101 Switch\r\n\r\nSMUGGLED",
    ],
)
async def test_what_follows_an_answer_in_its_packet_is_dropped(reached: Reached, surplus: bytes) -> None:
    reached.backend.answer = raw(as_json({"n": 1}) + surplus)
    assert await reached.get() == b'{"n":1}'
    answer = await reached.ask()
    assert (answer.status, await answer.read(1000)) == (200, b'{"n":1}')
    assert not reached.idle


async def test_the_body_of_an_answer_to_head_is_dropped(reached: Reached) -> None:
    reached.backend.answer = raw(as_json({"n": "SMUGGLED"}))
    head = HttpRequest("HEAD", "x", "/a")
    answer = await reached.ask(head)
    assert (answer.status, answer.taken()) == (200, b"")
    assert not reached.idle
    reached.backend.answer = raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
    assert (await reached.ask(head)).taken() == b""
    assert len(reached.idle) == 1


async def test_connections_are_kept_and_used_again(reached: Reached) -> None:
    reached.backend.answer = raw(as_json({}))
    for _ in range(3):
        answer = await reached.ask()
        assert await answer.read(1000) == b"{}"
        answer.close()
        assert len(reached.idle) == 1
    assert reached.backend.connections == 1


async def test_connections_of_former_certificates_arent_used_again(tmp_path: Path) -> None:
    backend = await ScriptedBackend(answer=raw(as_json({}))).start(tmp_path)
    contexts = [backend.client_context()]
    pool = HttpPool(newest(contexts), protocols=(HTTP1,))
    address = Address("127.0.0.1", backend.port, "echo.default.svc")
    for _ in range(2):
        await (await pool.ask(address, REQUEST)).read(1000)
        contexts.append(backend.client_context())
    assert backend.connections == 2
    pool.close()
    await backend.stop()


async def test_certificates_may_change_while_a_connection_is_in_use(tmp_path: Path) -> None:
    backend = await ScriptedBackend(answer=raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n")).start(tmp_path)
    contexts = [backend.client_context()]
    pool = HttpPool(newest(contexts), protocols=(HTTP1,))
    address = Address("127.0.0.1", backend.port, "echo.default.svc")
    for _ in range(2):
        await pool.ask(address, REQUEST)
        contexts.append(backend.client_context())
    assert backend.connections == 2
    pool.close()
    await backend.stop()


@pytest.mark.parametrize("hosts", ["other.default.svc", "127.0.0.1"])
async def test_a_certificate_for_another_name_is_refused(tmp_path: Path, hosts: str) -> None:
    backend = await ScriptedBackend(hosts).start(tmp_path)
    tls = backend.client_context()
    pool = HttpPool(newest([tls]), protocols=(HTTP1,))
    with pytest.raises(HttpError, match="certificate is not valid for echo") as refused:
        await pool.ask(Address("127.0.0.1", backend.port, "echo.default.svc"), REQUEST)
    assert refused.value.unsent
    await backend.stop()
