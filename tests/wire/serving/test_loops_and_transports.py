"""The same on both event loops, with the fast transport and with the loop's own."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop
from client_certificates import issue_client
from cryptography import x509

from oarlock.endpoints.http import Request, Response
from oarlock.server.serving import listener as server_module
from oarlock.server.serving.certificates.serving_pair import ServingFiles
from oarlock.server.serving.certificates.tls import server_context

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=["fast", "the loop's own"])
def transports(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "fast":
        monkeypatch.setattr(server_module, "connect_accepted_socket", None)


async def handler(request: Request) -> Response:
    name = "-"
    if request.peer.certificate is not None:
        name = x509.load_der_x509_certificate(request.peer.certificate).subject.rfc4514_string()
    await asyncio.sleep(0)
    return Response(200, [("x-peer", name)], await request.read())


@pytest.mark.usefixtures("transports")
@pytest.mark.parametrize("loop", sorted(LOOPS))
@pytest.mark.parametrize("secure", [False, True])
def test_a_client_of_the_standard_library(
    server: Any, certificates: ServingFiles, tmp_path: Path, loop: str, secure: bool
) -> None:
    context = server_context(certificates.certificate, certificates.key, client_certificates=True)
    client = ssl.create_default_context(cafile=str(certificates.ca))
    certificate, key = issue_client(certificates.ca.parent, "admin", (), time.time())
    (tmp_path / "admin.pem").write_bytes(certificate + key)
    client.load_cert_chain(tmp_path / "admin.pem")

    def talk(port: int) -> list[tuple[str | None, bytes]]:
        connection = (
            http.client.HTTPSConnection("localhost", port, context=client, timeout=60)
            if secure
            else http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        )
        seen = []
        for body in (b"", b"x" * 2_000_000, b"abc"):
            connection.request("POST", "/", body)
            answer = connection.getresponse()
            seen.append((answer.getheader("x-peer"), answer.read()))
        connection.close()
        return seen

    async def main() -> list[tuple[str | None, bytes]]:
        async with server(handler, tls=(context, client) if secure else None) as s:
            return await asyncio.to_thread(talk, s.listening.port)

    name = "CN=admin" if secure else "-"
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        assert runner.run(main()) == [(name, b""), (name, b"x" * 2_000_000), (name, b"abc")]


@pytest.mark.usefixtures("transports")
@pytest.mark.parametrize("loop", sorted(LOOPS))
@pytest.mark.parametrize("secure", [False, True])
def test_http2_and_draining(server: Any, make_h2_client: Any, tls_contexts: Any, loop: str, secure: bool) -> None:
    async def main() -> None:
        options = {"server_hostname": "localhost"} if secure else {}
        async with server(handler, tls=tls_contexts("h2") if secure else None) as s:
            client = await make_h2_client(s, **options)
            assert (await client.post("/", b"abc" * 100_000)).body == b"abc" * 100_000
            assert await s.listening.drain(5) == 0
            await asyncio.wait((client.reading,))
            assert client.goaways == [(0, 2**31 - 1), (0, 1)]

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())
