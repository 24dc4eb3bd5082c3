"""Documents of issuers over real connections: whom they are believed from, how long, how many bytes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trustme
from aiohttp import web

from oarlock.server.authentication import issuers
from oarlock.server.authentication.issuers import HTTPDocuments

pytestmark = pytest.mark.anyio

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
CA = trustme.CA()


@asynccontextmanager
async def issuer(answer: Answer, ca: trustme.CA = CA) -> AsyncIterator[str]:
    """The URL of a server over TLS."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(tls)
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
def reader() -> HTTPDocuments:
    return HTTPDocuments(CA.cert_pem.bytes())


@pytest.mark.parametrize(
    ("headers", "fresh_s"),
    [
        ({}, None),
        ({"Cache-Control": "public, max-age=300"}, 300.0),
        ({"Cache-Control": "Max-Age=300", "Age": "100"}, 200.0),
        ({"Cache-Control": "max-age=300", "Age": "900"}, 0.0),
        ({"Cache-Control": "max-age=300", "Age": "old"}, 300.0),
        ({"Cache-Control": "no-store, max-age=300"}, 0.0),
        ({"Cache-Control": "s-maxage=5, x-max-age=7"}, None),
        ({"Cache-Control": "max-age=soon"}, None),
    ],
)
async def test_a_document_and_how_long_it_stays_the_same(
    reader: HTTPDocuments, headers: dict[str, str], fresh_s: float | None
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=request.path_qs.encode(), headers=headers)

    async with issuer(answer) as url:
        found = await reader.read(f"{url}/tenant/keys?p=a%2Fb")
    assert (found.data, found.fresh_s) == (b"/tenant/keys?p=a%2Fb", fresh_s)


@pytest.mark.parametrize("status", [204, 301, 302, 401, 404, 500])
async def test_only_an_answer_that_says_200_counts(reader: HTTPDocuments, status: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": "/keys"})

    async with issuer(answer) as url:
        with pytest.raises(ConnectionError, match=f"answered with {status}"):
            await reader.read(url)


async def test_an_issuer_of_another_authority_is_not_believed(reader: HTTPDocuments) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response()

    async with issuer(answer, trustme.CA()) as url:
        with pytest.raises(ConnectionError, match="signed by unknown authority"):
            await reader.read(url)
        with pytest.raises(ConnectionError, match="signed by unknown authority"):
            await HTTPDocuments(b"").read(url)


async def test_an_answer_that_does_not_end(reader: HTTPDocuments) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(64):  # more than is read; a loop without end would go on when the client has left
            await response.write(b" " * 65536)
        return response

    async with issuer(answer) as url:
        with pytest.raises(ConnectionError, match="more than 1048576 bytes"):
            await reader.read(url)


async def test_an_issuer_that_hangs(reader: HTTPDocuments, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "TIMEOUT_S", 0.1)
    over = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/head":
            await over.wait()
        response = web.StreamResponse()
        await response.prepare(request)
        await over.wait()
        return response

    async with issuer(answer) as url:
        for path in ("/head", "/body"):
            with pytest.raises(ConnectionError, match=r"no answer within|no data arrived in time"):
                await reader.read(url + path)
        over.set()


async def test_nobody_there(reader: HTTPDocuments) -> None:
    with pytest.raises(ConnectionError, match=r"https://127\.0\.0\.1:9: "):
        await reader.read("https://127.0.0.1:9/keys")
