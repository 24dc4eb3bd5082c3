"""Bodies of requests pass to backends as they arrive: of any size, held nowhere, as fast as the backend takes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from scripted_backend import Asked, ScriptedBackend, as_json, newest

from oarlock.apps.aggregation.forward import MOST_WHOLE, forward
from oarlock.client.clock import SystemClock
from oarlock.endpoints.http import BodyTooLarge, BrokenBody, Request, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import Peer, User
from oarlock.net.connecting import Address
from oarlock.net.pool import HTTP1, HttpPool
from oarlock.server.serving.listener_state import pump
from oarlock.server.serving.request_body import RequestBody, no_body

pytestmark = pytest.mark.anyio

PIECE = b"x" * 65_536
LENGTH, CHUNKED = {"content-length": str(256 * len(PIECE))}, {"transfer-encoding": "chunked"}


class Uploading:
    """A request whose body is fed by a test, and the backend it is for."""

    def __init__(self, backend: ScriptedBackend, headers: dict[str, str]) -> None:
        tls = backend.client_context()
        self.pool = HttpPool(newest([tls]), protocols=(HTTP1,))
        self.address = Address("127.0.0.1", backend.port, "echo.default.svc")
        self.wanted = asyncio.Event()
        length = headers.get("content-length")
        loop = asyncio.get_running_loop()
        self.body = RequestBody(loop, 1000, self.wanted.set, int(length) if length else None)
        lines = list(headers.items())
        self.request = Request("POST", "/a", "", headers, lines, Peer("127.0.0.1", 1), no_body, 0.0)
        self.request.read, self.request.piece = self.body.read, self.body.piece

    async def forward(self) -> Response:
        state = RequestState(self.request, SystemClock(), user=User("u"))
        return await forward(self.pool, self.address, state)

    async def feed(self, count: int) -> None:
        """Feed pieces, each when somebody waits for it, as a connection does."""
        for _ in range(count):
            await self.wanted.wait()
            self.wanted.clear()
            self.body.feed(PIECE)

    async def until_full(self) -> int:
        """Feed until nobody takes more; how many pieces were taken."""
        taken = 0
        while True:
            try:
                await asyncio.wait_for(self.wanted.wait(), 0.5)
            except TimeoutError:
                return taken
            self.wanted.clear()
            self.body.feed(PIECE)
            taken += 1


def idle(one: Uploading) -> int:
    """How many connections may carry another request."""
    return sum(len(kept.idle) for kept in one.pool._kept.values())


Uploads = Callable[[dict[str, str]], Uploading]


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[ScriptedBackend]:
    one = await ScriptedBackend(read_bodies=False).start(tmp_path)
    async with asyncio.timeout(60):
        yield one
    await one.stop()


@pytest.fixture
async def upload(backend: ScriptedBackend) -> AsyncIterator[Uploads]:
    made: list[Uploading] = []

    def begin(headers: dict[str, str]) -> Uploading:
        made.append(Uploading(backend, headers))
        return made[-1]

    yield begin
    for one in made:
        one.pool.close()


async def read_chunked(reader: asyncio.StreamReader) -> int:
    total = 0
    while size := int(await reader.readline(), 16):
        total += len(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return total


async def read_declared(reader: asyncio.StreamReader) -> int:
    for _ in range(256):
        await reader.readexactly(len(PIECE))
    return 256 * len(PIECE)


def told(read: Callable[[asyncio.StreamReader], Awaitable[int]]) -> object:
    async def answer(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(as_json({"received": await read(reader)}))

    return answer


@pytest.mark.parametrize(("headers", "read"), [(LENGTH, read_declared), (CHUNKED, read_chunked)])
async def test_a_body_beyond_every_limit_passes(
    backend: ScriptedBackend, upload: Uploads, headers: dict[str, str], read: Callable[..., Awaitable[int]]
) -> None:
    backend.answer = told(read)  # type: ignore[assignment]
    one = upload(dict(headers))
    asking = asyncio.ensure_future(one.forward())
    held = 0
    for _ in range(256):
        await one.feed(1)
        held = max(held, one.body.buffered)
    one.body.finish()
    answer = await asking
    assert answer.body == b'{"received":16777216}'
    assert held <= len(PIECE)
    framing = [line for line in backend.asked[0].headers if line[0] in headers]
    assert framing == list(headers.items())


async def test_a_backend_that_stops_reading_stops_the_client(backend: ScriptedBackend, upload: Uploads) -> None:
    async def hang(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    backend.answer = hang
    one = upload(dict(CHUNKED))
    asking = asyncio.ensure_future(one.forward())
    taken = await one.until_full()
    assert taken * len(PIECE) < 32 * 1024 * 1024  # what the kernel's buffers hold, and ours of 64 KiB
    assert one.body.buffered <= len(PIECE)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert idle(one) == 0


async def test_an_early_answer_ends_the_upload(backend: ScriptedBackend, upload: Uploads) -> None:
    async def refuse(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(as_json({"no": True}, "413 Content Too Large"))

    backend.answer = refuse
    one = upload(dict(LENGTH))
    answer = await one.forward()
    assert (answer.status, answer.body) == (413, b'{"no":true}')
    assert idle(one) == 0  # the rest of the body would be the next request


async def test_a_backend_that_dies_halfway_is_unavailable(backend: ScriptedBackend, upload: Uploads) -> None:
    async def die(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(10)
        writer.transport.abort()

    backend.answer = die
    one = upload(dict(LENGTH))
    asking = asyncio.ensure_future(one.forward())
    await one.feed(1)
    assert (await asking).status == 503


async def test_a_body_that_breaks_off_isnt_passed_on_as_whole(backend: ScriptedBackend, upload: Uploads) -> None:
    cut = asyncio.Event()

    async def wait(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await read_chunked(reader)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            cut.set()
            raise ConnectionResetError from None

    backend.answer = wait
    one = upload(dict(CHUNKED))
    asking = asyncio.ensure_future(one.forward())
    await one.feed(1)
    await one.wanted.wait()
    one.body.fail(BrokenBody("the client went away"))
    with pytest.raises(BrokenBody):
        await asking
    await cut.wait()


async def test_a_small_body_goes_with_its_head(backend: ScriptedBackend, upload: Uploads) -> None:
    async def answer(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(as_json({"received": len(await reader.readexactly(5))}))

    backend.answer = answer
    one = upload({"content-length": "5"})
    one.body.feed(b"small")
    one.body.finish()
    assert (await one.forward()).body == b'{"received":5}'
    assert MOST_WHOLE > 5


async def test_the_limit_holds_for_who_reads_all() -> None:
    loop = asyncio.get_running_loop()
    body = RequestBody(loop, 10, lambda: None, 11)
    with pytest.raises(BodyTooLarge):
        await body.read()
    body = RequestBody(loop, 10, lambda: None)
    reading = asyncio.ensure_future(body.read())
    await asyncio.sleep(0)
    body.feed(b"x" * 11)
    with pytest.raises(BodyTooLarge):
        await reading
    assert body.buffered == 0


async def test_a_switch_of_protocols_that_nobody_asked_for_is_refused(
    backend: ScriptedBackend, upload: Uploads
) -> None:
    async def switch(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nraw")

    backend.answer = switch
    one = upload({"content-length": "0"})
    one.body.finish()
    assert (await one.forward()).status == 502
    assert idle(one) == 0


async def test_trailers_without_end_are_not_kept(backend: ScriptedBackend, upload: Uploads) -> None:
    async def flood(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n")
        writer.write(b"x-more: yes\r\n" * 10_000 + b"\r\n")

    backend.answer = flood
    one = upload({"content-length": "0"})
    one.body.finish()
    answer = await one.forward()
    body = answer.body if isinstance(answer.body, bytes) else b"".join([piece async for piece in answer.body])  # type: ignore[union-attr]
    assert body == b"ok"
    assert len(answer.headers) < 5


class Cut:
    """Where an answer is sent; it is cut."""

    closed = False
    aborted = False

    async def room(self) -> None:
        return

    def write(self, data: bytes) -> None:
        return

    def close(self) -> None:
        return

    def abort(self) -> None:
        self.aborted = True


async def test_an_answer_that_breaks_off_is_one_line_of_the_log(
    backend: ScriptedBackend, upload: Uploads, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        await writer.drain()
        raise ConnectionResetError

    backend.answer = answer
    response = await upload({}).forward()
    sink = Cut()
    assert isinstance(response.body, AsyncIterator)
    await pump(response.body, sink)  # type: ignore[arg-type]
    assert sink.aborted
    (record,) = caplog.records
    assert record.message.startswith("an answer broke off: echo.default.svc: unexpected EOF")
    assert record.exc_info is None
