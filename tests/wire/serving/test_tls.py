"""TLS: versions, ALPN, client certificates that never fail the handshake, certificates renewed on the fly."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from client_certificates import issue_client
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from oarlock.endpoints.http import Request, Response
from oarlock.server.serving.certificates import tls as tls_module
from oarlock.server.serving.certificates.serving_pair import ServingFiles, ensure_certificates
from oarlock.server.serving.certificates.tls import BadCertificateFile, reload_certificate, server_context
from oarlock.testing.contracts.support import eventually

pytestmark = pytest.mark.anyio


async def who(request: Request) -> Response:
    """The name in the client's certificate."""
    certificate = request.peer.certificate
    name = "nobody" if certificate is None else x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    return Response(200, [], name.encode())


def client_context(files: ServingFiles, *alpn: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files.ca))
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def with_certificate(
    context: ssl.SSLContext, directory: Path, issuer: Path, name: str, *organizations: str
) -> ssl.SSLContext:
    certificate, key = issue_client(issuer, name, organizations, time.time())
    file = directory / f"{name}.pem"
    file.write_bytes(certificate + key)
    context.load_cert_chain(file)
    return context


async def ask(s: Any, context: ssl.SSLContext) -> bytes:
    client = await s.connect(context, server_hostname="localhost")
    await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    body: bytes = (await client.response())[2]
    return body


@pytest.fixture(params=["any certificate", "verified by OpenSSL"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "verified by OpenSSL":
        monkeypatch.setattr(tls_module, "_accept_any_certificate", lambda context: False)
    return str(request.param)


async def test_client_certificates(server: Any, certificates: ServingFiles, tmp_path: Path, mode: str) -> None:
    context = server_context(
        certificates.certificate, certificates.key, client_certificates=True, client_ca=certificates.ca
    )
    good = with_certificate(
        client_context(certificates), tmp_path, certificates.ca.parent, "admin", "system:masters", "devs"
    )
    rogue_ca = ensure_certificates(tmp_path / "rogue", (), time.time()).ca.parent
    rogue = with_certificate(client_context(certificates), tmp_path, rogue_ca, "rogue")
    async with server(who, tls=(context, client_context(certificates))) as s:
        assert await ask(s, client_context(certificates)) == b"nobody"
        assert await ask(s, good) == b"CN=admin,O=devs,O=system:masters"
        if mode == "any certificate":
            assert await ask(s, rogue) == b"CN=rogue"
        else:
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await ask(s, rogue)


async def test_what_a_client_sends_besides_its_certificate(
    server: Any, certificates: ServingFiles, tmp_path: Path
) -> None:
    context = server_context(certificates.certificate, certificates.key, client_certificates=True)
    certificate, key = issue_client(certificates.ca.parent, "chained", (), time.time())
    file = tmp_path / "chained.pem"
    file.write_bytes(certificate + certificates.ca.read_bytes() + key)
    client = client_context(certificates)
    client.load_cert_chain(file)

    async def chain(request: Request) -> Response:
        return Response(200, [], b"".join(request.peer.chain))

    async with server(chain, tls=(context, client)) as s:
        ca = x509.load_pem_x509_certificate(certificates.ca.read_bytes())
        assert await ask(s, client) == ca.public_bytes(Encoding.DER)


async def test_the_certificate_of_a_client_is_there_on_a_resumed_session_too(
    server: Any, certificates: ServingFiles, tmp_path: Path
) -> None:
    context = server_context(certificates.certificate, certificates.key, client_certificates=True)
    client = with_certificate(client_context(certificates), tmp_path, certificates.ca.parent, "again")
    client.maximum_version = ssl.TLSVersion.TLSv1_2

    def twice(port: int) -> list[tuple[bytes, bool]]:
        seen, session = [], None
        for _ in range(2):
            import_socket = __import__("socket").create_connection(("127.0.0.1", port))
            with client.wrap_socket(import_socket, server_hostname="localhost", session=session) as sock:
                sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                data = b""
                while piece := sock.recv(4096):
                    data += piece
                session = sock.session
                seen.append((data.rpartition(b"\r\n")[2], bool(sock.session_reused)))
        return seen

    async with server(who, tls=(context, client)) as s:
        assert await asyncio.to_thread(twice, s.listening.port) == [(b"CN=again", False), (b"CN=again", True)]


@pytest.mark.parametrize(
    ("offered", "http2", "chosen"),
    [
        ((), True, None),
        (("http/1.1",), True, "http/1.1"),
        (("http/1.1", "h2"), True, "h2"),
        (("h2", "http/1.1"), False, "http/1.1"),
    ],
)
async def test_alpn(server: Any, certificates: ServingFiles, offered: Any, http2: bool, chosen: str | None) -> None:
    context = server_context(certificates.certificate, certificates.key, http2=http2)
    async with server(who, tls=(context, client_context(certificates, *offered)), http2=http2) as s:
        client = await s.connect(server_hostname="localhost")
        assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == chosen


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_old_versions_are_refused(server: Any, certificates: ServingFiles) -> None:
    context = server_context(certificates.certificate, certificates.key)
    old = client_context(certificates)
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with server(who, tls=(context, old)) as s:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await ask(s, old)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            new = client_context(certificates)
            new.minimum_version = new.maximum_version = version
            assert await ask(s, new) == b"nobody"


async def test_what_is_not_tls_is_dropped(server: Any, certificates: ServingFiles) -> None:
    context = server_context(certificates.certificate, certificates.key)
    async with server(who, tls=(context, client_context(certificates))) as s:
        reader, writer = await asyncio.open_connection("127.0.0.1", s.listening.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert b"200" not in await reader.read()
        writer.close()
        assert await ask(s, client_context(certificates)) == b"nobody"


async def test_a_client_that_leaves_without_a_word_is_noticed(server: Any, certificates: ServingFiles) -> None:
    context = server_context(certificates.certificate, certificates.key)
    streams: list[Any] = []

    async def handler(request: Request) -> Response:
        return Response(200, [], stream=streams.append)

    async with server(handler, tls=(context, client_context(certificates))) as s:
        client = await s.connect(server_hostname="localhost")
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.until(b"\r\n\r\n")
        client.writer.transport.abort()
        await eventually(lambda: s.listening.connections == 0, "the server doesn't notice")
        assert streams[0].closed


async def test_an_idle_client_that_does_not_close_its_side_is_cut(server: Any, certificates: ServingFiles) -> None:
    context = server_context(certificates.certificate, certificates.key)
    async with server(who, tls=(context, client_context(certificates))) as s:
        client = await s.connect(server_hostname="localhost")
        client.writer.transport.pause_reading()
        await s.later(33)
        assert s.listening.connections == 1
        await s.later(2)
        await s.later(2)
        assert s.listening.connections == 0


async def test_a_large_answer_over_tls_to_a_slow_reader_that_asked_to_close(
    server: Any, certificates: ServingFiles
) -> None:
    context = server_context(certificates.certificate, certificates.key)

    async def handler(request: Request) -> Response:
        return Response(200, [], b"x" * 20_000_000)

    async with server(handler, tls=(context, client_context(certificates))) as s:
        client = await s.connect(server_hostname="localhost")
        client.writer.transport.pause_reading()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        await s.later(20)
        await s.later(5)
        client.writer.transport.resume_reading()
        assert len((await client.response())[2]) == 20_000_000
        assert await client.rest() == b""


async def test_a_renewed_certificate_is_served_from_the_next_handshake_on(server: Any, tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, (), time.time())
    context = server_context(files.certificate, files.key)
    async with server(who, tls=(context, client_context(files))) as s:
        seen = []
        for hosts in ((), ("other.example",)):
            ensure_certificates(tmp_path, hosts, time.time())
            reload_certificate(context, files.certificate, files.key)
            client = await s.connect(server_hostname="localhost")
            seen.append(client.writer.get_extra_info("peercert")["serialNumber"])
        assert seen[0] != seen[1]
        files.key.write_text("rubbish")
        with pytest.raises(BadCertificateFile, match=r"tls\.key"):
            reload_certificate(context, files.certificate, files.key)
        assert await ask(s, client_context(files)) == b"nobody"


def test_without_openssl_and_without_a_client_ca_nobody_is_asked(
    certificates: ServingFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_module, "_accept_any_certificate", lambda context: False)
    with caplog.at_level(logging.WARNING):
        context = server_context(certificates.certificate, certificates.key, client_certificates=True)
    assert context.verify_mode == ssl.CERT_NONE
    assert "can't be requested" in caplog.text


@pytest.mark.parametrize("which", ["certificate", "key", "ca"])
@pytest.mark.parametrize("how", ["missing", "rubbish", "swapped"])
def test_a_file_that_cannot_be_used_is_named(
    certificates: ServingFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, how: str
) -> None:
    monkeypatch.setattr(tls_module, "_accept_any_certificate", lambda context: False)
    paths = {"certificate": certificates.certificate, "key": certificates.key, "ca": certificates.ca}
    bad = tmp_path / f"bad-{which}.pem"
    if how == "rubbish":
        bad.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    elif how == "swapped":
        other = ensure_certificates(tmp_path / "other", (), time.time())
        bad = other.key  # a key where a certificate belongs, and a key of something else
    paths[which] = bad
    with pytest.raises(BadCertificateFile, match=str(bad)):
        server_context(paths["certificate"], paths["key"], client_certificates=True, client_ca=paths["ca"])


@pytest.mark.parametrize("size", [319_152, 400_000, 515_760])
async def test_a_body_that_is_read_late_is_read_to_its_end(server: Any, tls_contexts: Any, size: int) -> None:
    async def late(request: Request) -> Response:
        await asyncio.sleep(0.02)  # in which the body arrives, and more of it than the server takes unasked
        return Response(200, [], b"%d" % len(await request.read()))

    async with server(late, tls=tls_contexts("http/1.1")) as s:
        client = await s.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
        assert (await client.response())[2] == b"%d" % size


@pytest.mark.parametrize("ends", ["with FIN", "with RST", "with rubbish"])
async def test_aborted_handshakes_are_one_line(
    server: Any,
    tls_contexts: Any,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    ends: str,
) -> None:
    """Nobody needs a credential to begin a handshake: it must not write a traceback each time."""
    caplog.set_level(logging.INFO)
    contexts = tls_contexts()
    client_side = contexts[1]
    async with server(who, tls=contexts) as s:
        for _ in range(20):
            hello = ssl.MemoryBIO()
            with pytest.raises(ssl.SSLWantReadError):
                client_side.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost").do_handshake()
            reader, writer = await asyncio.open_connection("127.0.0.1", s.listening.port)
            writer.write(hello.read() if ends != "with rubbish" else b"GET / HTTP/1.1\r\n\r\n")
            if ends == "with RST":
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if ends == "with rubbish":
                await reader.read()
            writer.close()
        async with asyncio.timeout(60):
            while s.listening._handshakes:  # noqa: ASYNC110 nobody says when a handshake has failed
                await asyncio.sleep(0)
        assert await ask(s, client_side)
    assert len([record for record in caplog.records if record.levelno >= logging.INFO]) <= 1
    assert not [record for record in caplog.records if record.exc_info]
    assert "Traceback" not in capfd.readouterr().err


async def test_no_sessions_are_kept(server: Any, certificates: ServingFiles, tmp_path: Path) -> None:
    """Those of TLS 1.2 without tickets would be, with the certificates that anybody shows."""
    context = server_context(certificates.certificate, certificates.key, client_certificates=True)
    client = client_context(certificates)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.options |= ssl.OP_NO_TICKET
    with_certificate(client, tmp_path, certificates.ca.parent, "somebody")

    def ask_and_leave() -> None:
        with socket.create_connection(("127.0.0.1", s.listening.port), timeout=5) as plain:
            tls = client.wrap_socket(plain, server_hostname="localhost")
            assert tls.version() == "TLSv1.2"
            tls.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert tls.recv(9) == b"HTTP/1.1 "
            tls.recv(65536)
            tls.unwrap().close()  # a session that isn't ended by both sides would not be kept

    async with server(who, tls=(context, client)) as s:
        for _ in range(3):
            await asyncio.to_thread(ask_and_leave)
        assert context.session_stats()["accept_good"] == 3
        assert context.session_stats()["number"] == 0


async def test_a_chain_of_certificates_has_a_bound(server: Any, certificates: ServingFiles, tmp_path: Path) -> None:
    context = server_context(certificates.certificate, certificates.key, client_certificates=True)
    client = client_context(certificates)
    with_certificate(client, tmp_path, certificates.ca.parent, "somebody")
    file = tmp_path / "somebody.pem"
    async with server(who, tls=(context, client)) as s:
        assert await ask(s, client) == b"CN=somebody"
        leaf, _, rest = file.read_bytes().partition(b"-----END CERTIFICATE-----\n")
        one = leaf + b"-----END CERTIFICATE-----\n"
        file.write_bytes(one * (40_000 // len(one)) + one * 40 + rest)
        client.load_cert_chain(file)
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await ask(s, client)
