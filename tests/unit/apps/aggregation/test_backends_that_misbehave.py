"""Connections to backends that hang, lie, flood or die: bounded, told as errors, and never mixed up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripted_backend import Answer, Asked, ScriptedBackend, as_json, newest

from oarlock.apps.aggregation.forwarding import connection as connections
from oarlock.apps.aggregation.forwarding.connection import BackendError
from oarlock.apps.aggregation.forwarding.fetch import fetch
from oarlock.apps.aggregation.forwarding.pool import Address, BackendPool

pytestmark = pytest.mark.anyio

REQUEST = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"


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
        self.pool = BackendPool(newest([tls]))
        self.address = Address("127.0.0.1", backend.port, "echo.default.svc")

    async def get(self, most_bytes: int = 1 << 20) -> bytes:
        answer = await fetch(self.pool, self.address, "/a", "application/json", most_bytes=most_bytes)
        return answer.body


@pytest.fixture
async def reached(tmp_path: Path) -> AsyncIterator[Reached]:
    one = Reached(await ScriptedBackend().start(tmp_path))
    async with asyncio.timeout(20):
        yield one
    one.pool.close()
    await one.backend.stop()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (raw(b"SSH-2.0-OpenSSH\r\n\r\n"), "doesn't answer with HTTP"),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n"), "doesn't answer with HTTP|broke off"),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", close=True), "broke off"),
        (raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n"), "doesn't answer with HTTP|broke off"),
        (raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", close=True), "broke off"),
        (raw(b"HTTP/1.1 200 OK\r\nx: ", *[b"y" * 65_536] * 8), "head of the answer is too large"),
        (raw(close=True), "without an answer"),
    ],
)
async def test_what_isnt_an_answer_is_an_error(reached: Reached, answer: Answer, told: str) -> None:
    reached.backend.answer = answer
    with pytest.raises(BackendError, match=told):
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
    with pytest.raises(BackendError, match="over 1048576 bytes"):
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
    connection = await reached.pool.take(reached.address)
    await connection.ask(REQUEST)
    await full.wait()
    assert connection._buffered < 4 * connections.MOST_BUFFERED
    pieces = connection.pieces()
    assert len(await anext(pieces)) >= connections.MOST_BUFFERED
    reached.pool.give_back(reached.address, connection)
    assert connection.closed or not connection.reusable


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
    connection = await reached.pool.take(reached.address)
    await connection.ask(REQUEST)
    reached.pool.give_back(reached.address, connection)
    reached.backend.answer = raw(as_json({"n": 2}))
    other = await reached.pool.take(reached.address)
    await other.ask(REQUEST)
    assert b"".join([piece async for piece in other.pieces()]) == b'{"n":2}'


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
    connection = await reached.pool.take(reached.address, fresh=True)
    head = await connection.ask(REQUEST)
    assert (head.status, b"".join([piece async for piece in connection.pieces()])) == (200, b'{"n":1}')
    assert not connection.idle


async def test_the_body_of_an_answer_to_head_is_dropped(reached: Reached) -> None:
    reached.backend.answer = raw(as_json({"n": "SMUGGLED"}))
    connection = await reached.pool.take(reached.address)
    head = await connection.ask(b"HEAD /a HTTP/1.1\r\nhost: x\r\n\r\n", without_body=True)
    assert (head.status, connection.taken()) == (200, b"")
    assert not connection.idle
    reached.backend.answer = raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
    other = await reached.pool.take(reached.address)
    await other.ask(b"HEAD /a HTTP/1.1\r\nhost: x\r\n\r\n", without_body=True)
    assert other.idle


async def test_connections_are_kept_and_used_again(reached: Reached) -> None:
    for _ in range(3):
        connection = await reached.pool.take(reached.address)
        reached.backend.answer = raw(as_json({}))
        await connection.ask(REQUEST)
        assert connection.taken() == b"{}"
        reached.pool.give_back(reached.address, connection)
        reached.pool.give_back(reached.address, connection)
    assert reached.backend.connections == 1


async def test_connections_of_former_certificates_arent_used_again(tmp_path: Path) -> None:
    backend = await ScriptedBackend(answer=raw(as_json({}))).start(tmp_path)
    contexts = [backend.client_context()]
    pool = BackendPool(newest(contexts))
    address = Address("127.0.0.1", backend.port, "echo.default.svc")
    for _ in range(2):
        connection = await pool.take(address)
        await connection.ask(REQUEST)
        pool.give_back(address, connection)
        contexts.append(backend.client_context())
    assert backend.connections == 2
    pool.close()
    await backend.stop()


async def test_certificates_may_change_while_a_connection_is_in_use(tmp_path: Path) -> None:
    backend = await ScriptedBackend().start(tmp_path)
    contexts = [backend.client_context()]
    pool = BackendPool(newest(contexts))
    address = Address("127.0.0.1", backend.port, "echo.default.svc")
    for _ in range(2):
        connection = await pool.take(address)
        await connection.ask(REQUEST)
        contexts.append(backend.client_context())
        pool.give_back(address, connection)
    assert backend.connections == 2
    pool.close()
    await backend.stop()


@pytest.mark.parametrize("hosts", ["other.default.svc", "127.0.0.1"])
async def test_a_certificate_for_another_name_is_refused(tmp_path: Path, hosts: str) -> None:
    backend = await ScriptedBackend(hosts).start(tmp_path)
    tls = backend.client_context()
    with pytest.raises(BackendError, match="certificate verify failed") as refused:
        await BackendPool(newest([tls])).take(Address("127.0.0.1", backend.port, "echo.default.svc"))
    assert refused.value.unsent
    await backend.stop()
