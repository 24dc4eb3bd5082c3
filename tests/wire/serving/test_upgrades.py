"""A connection that is handed over: raw bytes both ways after a 101, or HTTP as before without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from oarlock.endpoints.http import Request, Response, Stream, Tunnel

pytestmark = pytest.mark.anyio

UPGRADE = b"GET /up HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n"
PLAIN = b"GET /plain HTTP/1.1\r\nHost: h\r\n\r\n"


def handing(take: Callable[[Tunnel], None], **headers: str) -> Any:
    """A handler that hands every connection that asks for it to `take`."""

    async def handle(request: Request) -> Response:
        if "upgrade" not in request.headers:
            return Response(200, [], b"plain")
        await asyncio.sleep(0)

        def start(stream: Stream) -> None:
            take(cast(Tunnel, stream))

        return Response(101, [("upgrade", "shout"), ("x-more", "yes"), *headers.items()], stream=start)

    return handle


class Shouting:
    """Says everything again in capitals until it hears ``bye``."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[bytes]] = []
        self.ended = 0

    def __call__(self, tunnel: Tunnel) -> None:
        tunnel.on_close(self._count)
        self.tasks.append(asyncio.ensure_future(self._shout(tunnel)))

    def _count(self) -> None:
        self.ended += 1

    async def _shout(self, tunnel: Tunnel) -> bytes:
        heard = b""
        while data := await tunnel.read():
            heard += data
            tunnel.write(data.upper())
            if heard.endswith(b"bye"):
                tunnel.close()
        return heard


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tls_contexts: Any) -> Any:
    return None if request.param == "plain" else tls_contexts("http/1.1")


async def test_bytes_go_both_ways(server: Any, tls: Any) -> None:
    shouting = Shouting()
    async with server(handing(shouting), tls=tls) as s:
        client = await s.connect()
        await client.send(PLAIN + UPGRADE)
        assert (await client.response())[2] == b"plain"
        head = await client.until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert b"\r\nconnection: Upgrade\r\nupgrade: shout\r\n" in head
        assert b"\r\nx-more: yes\r\n" in head
        assert b"content-length" not in head
        assert b"chunked" not in head
        await client.send(b"hello\r\n\r\n")
        assert await client.exactly(9) == b"HELLO\r\n\r\n"
        await client.send(b"bye")
        assert await client.rest() == b"BYE"
        assert await shouting.tasks[0] == b"hello\r\n\r\nbye"
        assert shouting.ended == 1


async def test_what_came_right_behind_the_request_is_not_lost(server: Any, tls: Any) -> None:
    shouting = Shouting()
    async with server(handing(shouting), tls=tls) as s:
        client = await s.connect()
        early = b"GET / HTTP/1.1 " * 4000
        await client.send(UPGRADE + early)
        await client.until(b"\r\n\r\n")
        assert await client.exactly(len(early)) == early
        await client.send(b"bye")
        assert await client.rest() == b"BYE"


async def test_a_declined_upgrade_goes_on_with_http(server: Any) -> None:
    asked, decided = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def decline(request: Request) -> Response:
        if request.path == "/up":
            asked.release()
            await decided.acquire()
        return Response(200, [], request.path.encode())

    async with server(decline) as s:
        client = await s.connect()
        await client.send(UPGRADE + PLAIN)
        await asked.acquire()
        await client.send(UPGRADE + PLAIN * 3)
        decided.release()
        assert [(await client.response())[2] for _ in range(2)] == [b"/up", b"/plain"]
        await asked.acquire()
        decided.release()
        assert [(await client.response())[2] for _ in range(4)] == [b"/up", *[b"/plain"] * 3]


async def test_a_client_that_goes_ends_it(server: Any, tls: Any) -> None:
    shouting = Shouting()
    async with server(handing(shouting), tls=tls) as s:
        client = await s.connect()
        await client.send(UPGRADE + b"x")
        await client.until(b"\r\n\r\nX")
        client.close()
        assert await asyncio.wait_for(shouting.tasks[0], 60) == b"x"
        assert shouting.ended == 1


async def test_what_nobody_reads_stays_with_the_client(server: Any, tls: Any) -> None:
    tunnels: list[Tunnel] = []
    async with server(handing(tunnels.append), tls=tls) as s:
        client = await s.connect()
        await client.send(UPGRADE)
        await client.until(b"\r\n\r\n")
        size = 32 * 1024 * 1024
        sending = asyncio.ensure_future(client.send(b"x" * size))
        await asyncio.wait((sending,), timeout=0.2)
        taken = 0
        for _ in range(5):
            await asyncio.sleep(0.02)  # in which all of it could come, if it were let in
            piece = await asyncio.wait_for(tunnels[0].read(), 60)
            assert len(piece) <= 1024 * 1024
            taken += len(piece)
        while taken < size:
            taken += len(await asyncio.wait_for(tunnels[0].read(), 60))
        await sending
        tunnels[0].abort()
        assert await tunnels[0].read() == b""
        assert await client.rest() == b""


async def test_a_writer_waits_for_the_client(server: Any, tls: Any) -> None:
    tunnels: list[Tunnel] = []
    async with server(handing(tunnels.append), tls=tls) as s:
        client = await s.connect()
        await client.send(UPGRADE)
        await client.until(b"\r\n\r\n")
        client.writer.transport.pause_reading()
        (tunnel,) = tunnels
        written = 0

        async def write() -> None:
            nonlocal written
            for _ in range(512):
                tunnel.write(b"y" * 65536)
                written += 65536
                await tunnel.drained()
            tunnel.close()

        writing = asyncio.ensure_future(write())
        await asyncio.wait((writing,), timeout=0.2)
        assert not writing.done()
        client.writer.transport.resume_reading()
        assert len(await client.rest()) == 512 * 65536
        await writing
        assert tunnel.closed


@pytest.mark.parametrize(
    ("request_head", "protocol"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: shout\r\n\r\n", "shout"),
        (b"GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n", "shout"),
        (UPGRADE, "a\r\nb"),
        (UPGRADE, ""),
    ],
)
async def test_a_101_nobody_can_follow_is_a_bug(server: Any, request_head: bytes, protocol: str) -> None:
    async def hasty(request: Request) -> Response:
        return Response(101, [("upgrade", protocol)], stream=lambda stream: None)

    async with server(hasty) as s:
        client = await s.connect()
        await client.send(request_head)
        assert (await client.response())[0] == 500


async def test_a_101_over_http2_is_a_bug(server: Any, tls_contexts: Any, h2_client: Any) -> None:
    async def hasty(request: Request) -> Response:
        return Response(101, [("upgrade", "shout")], stream=lambda stream: None)

    async with server(hasty, tls=tls_contexts("h2")) as s:
        client = await h2_client(s)
        assert (await client.get("/")).status == 500


async def test_a_taker_that_fails_cuts_the_connection(server: Any) -> None:
    def fail(tunnel: Tunnel) -> None:
        raise ValueError("no")

    async with server(handing(fail)) as s:
        client = await s.connect()
        await client.send(UPGRADE)
        assert b"plain" not in await client.rest()


async def test_a_server_that_leaves_waits_for_it(server: Any) -> None:
    shouting = Shouting()
    async with server(handing(shouting)) as s:
        client = await s.connect()
        await client.send(UPGRADE)
        await client.until(b"\r\n\r\n")
        draining = asyncio.ensure_future(s.listening.drain(5))
        await asyncio.sleep(0.01)
        await client.send(b"bye")
        assert await client.rest() == b"BYE"
        client.close()
        assert await draining == 0


async def test_an_upgrade_is_the_same_however_it_is_cut(server: Any) -> None:
    sent = PLAIN + UPGRADE + b"and more"
    async with server(handing(Shouting())) as taking, server() as declining:
        for cut in range(1, len(sent), 3):
            client = await taking.connect()
            await client.send(sent[:cut])
            await asyncio.sleep(0)
            await client.send(sent[cut:])
            assert (await client.response())[2] == b"plain"
            assert (await client.response())[0] == 101
            assert await client.exactly(8) == b"AND MORE"
            client.close()
            client = await declining.connect()
            again = sent[: -len(b"and more")] + PLAIN
            await client.send(again[:cut])
            await asyncio.sleep(0)
            await client.send(again[cut:])
            assert [(await client.response())[2] for _ in range(3)] == [
                b"GET /plain  0",
                b"GET /up  0",
                b"GET /plain  0",
            ]
            client.close()


async def test_an_older_http_asks_for_no_upgrade(server: Any) -> None:
    async def tell(request: Request) -> Response:
        found = [value for name, value in request.all_headers if name == "upgrade"]
        return Response(200, [], f"{request.headers.get('upgrade')} {found}".encode())

    async with server(tell) as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: shout\r\nX: y\r\n\r\n")
        assert (await client.response())[2] == b"None []"
