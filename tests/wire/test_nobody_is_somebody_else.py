"""Who a client is over real connections: whatever headers it sends, and whatever certificate it shows.

A control plane with a front proxy is asked who one is, over HTTP/1.1 and 2, in every spelling of the proxy's headers.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest
from client_certificates import issue_client
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from silent_terminal import Silent

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import for_control_plane
from oarlock.client.clock import SystemClock
from oarlock.server.assembly.lifecycle import start
from oarlock.server.config import ServerConfig
from oarlock.server.serving.certificates.serving_pair import ensure_certificates

pytestmark = pytest.mark.anyio

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BODY = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
WAIT_S = 20.0
Lines = Sequence[tuple[bytes, bytes]]

CLAIMS: list[Lines] = [
    [(b"X-Remote-User", b"root"), (b"X-Remote-Group", b"system:masters")],
    [(b"x-remote-user", b"root"), (b"x-remote-group", b"system:masters")],
    [(b"X-REMOTE-USER", b"root"), (b"X-REMOTE-UID", b"0"), (b"X-Remote-Extra-Scopes", b"all")],
    [(b"X_Remote_User", b"root"), (b"X-Remote_Group", b"system:masters")],
    [(b"x-remote-user", b""), (b"x-remote-user", b"root")],
    [(b"x-remote-user", b"root"), (b"x-remote-user", b"root")],
    [(b"connection", b"x-remote-user"), (b"x-remote-user", b"root")],
    [(b"x-remote-user ", b"root")],
    [(b"x-remote-user\t", b"root")],
    [(b"x-remote-user\x00", b"root")],
    [(b"x-remote-\xc3\xbcser", b"root")],
    [(b"x-remote-user", b" root\t")],
    [(b"x-remote-user", b"ro\x00ot")],
    [(b"x-remote-user", b"root\r\nx-remote-group: system:masters")],
    [(b"a: b\r\nx-remote-user", b"root")],
    [(b"a", b"b\r\n x-remote-user: root")],
    [(b":x-remote-user", b"root")],
    [(b"impersonate-user", b"root")],
    [(b"x-remote-user", b"root"), (b"transfer-encoding", b"identity")],
    [(b"x-forwarded-user", b"root"), (b"x-auth-request-user", b"root"), (b"remote-user", b"root")],
]


@asynccontextmanager
async def control_plane(folder: Path) -> AsyncIterator[int]:
    """The port of a control plane that believes the front proxy called ``proxy``, and the clients' authority."""
    now = SystemClock().now()
    for name in ("proxies", "clients", "strangers"):
        ensure_certificates(folder / name, (), now)
    tokens = folder / "tokens.csv"
    tokens.write_text("bobtoken,bob,3\n")
    config = ServerConfig(
        storage="memory://",
        data_dir=folder / "data",
        secure_port=0,
        token_auth_file=tokens,
        client_ca_file=folder / "clients" / "ca.crt",
        requestheader_client_ca_file=folder / "proxies" / "ca.crt",
        requestheader_allowed_names=("proxy",),
        requestheader_uid_headers=("x-remote-uid",),
    )
    running = await start(ControlPlane(), for_control_plane(config), SystemClock(), Silent())
    try:
        yield int(running.url.rpartition(":")[2])
    finally:
        await running.shut_down()


class Client:
    """Connects with a certificate (PEM with its key) and a token, or without."""

    def __init__(self, folder: Path, port: int, pem: bytes = b"", token: bytes = b"") -> None:
        self.folder, self.port, self.pem, self.token = folder, port, pem, token

    async def who(self, lines: Lines = (), *, http2: bool = False) -> str:
        """The name that the server knows the client by, or the status of its refusal; ``broken`` for no answer."""
        tls = ssl.create_default_context(cafile=str(self.folder / "data" / "pki" / "ca.crt"))
        tls.set_alpn_protocols(["h2" if http2 else "http/1.1"])
        if self.pem:
            file = self.folder / "shown.pem"
            file.write_bytes(self.pem)
            tls.load_cert_chain(file)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
        try:
            async with asyncio.timeout(WAIT_S):
                status, body = await (self._over_http2 if http2 else self._over_http1)(reader, writer, lines)
        except (ConnectionError, asyncio.IncompleteReadError):
            return "broken"
        finally:
            writer.transport.abort()
        if status != 201:
            return str(status)
        user = json.loads(body)["status"]["userInfo"]
        assert "system:masters" not in user.get("groups", ()), user
        assert "Scopes" not in str(user), user
        return str(user["username"])

    async def _over_http1(self, reader: Any, writer: Any, lines: Lines) -> tuple[int, bytes]:
        given = [(b"authorization", b"Bearer " + self.token)] if self.token else []
        head = [
            b"POST %s HTTP/1.1" % SELF.encode(),
            b"host: x",
            b"content-type: application/json",
            b"connection: close",
        ]
        head += [b"content-length: %d" % len(BODY)] + [name + b": " + value for name, value in (*given, *lines)]
        writer.write(b"\r\n".join(head) + b"\r\n\r\n" + BODY)
        answer = await reader.read()
        first, _, rest = answer.partition(b"\r\n")
        if not first:
            raise ConnectionError
        return int(first.split(b" ")[1]), rest.partition(b"\r\n\r\n")[2]

    async def _over_http2(self, reader: Any, writer: Any, lines: Lines) -> tuple[int, bytes]:
        config = h2.config.H2Configuration(
            validate_outbound_headers=False, normalize_outbound_headers=False, header_encoding=None
        )
        connection = h2.connection.H2Connection(config)
        connection.initiate_connection()
        given = [(b"authorization", b"Bearer " + self.token)] if self.token else []
        pseudo = [(b":method", b"POST"), (b":path", SELF.encode()), (b":scheme", b"https"), (b":authority", b"x")]
        stream = connection.get_next_available_stream_id()
        headers = [*pseudo, (b"content-type", b"application/json"), *given, *lines]
        connection.send_headers(stream, headers)
        connection.send_data(stream, BODY, end_stream=True)
        writer.write(connection.data_to_send())
        status, body = 0, b""
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    status = int(dict(event.headers)[b":status"])
                elif isinstance(event, h2.events.DataReceived):
                    body += event.data
                elif isinstance(event, h2.events.StreamEnded):
                    return status, body
                elif isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated) and not status:
                    raise ConnectionError
        raise ConnectionError


def shown(folder: Path, authority: str, name: str, organizations: Sequence[str] = ()) -> bytes:
    certificate, key = issue_client(folder / authority, name, organizations, SystemClock().now())
    return certificate + key


@pytest.mark.slow
async def test_headers_of_a_front_proxy_are_believed_from_nobody_else(tmp_path: Path) -> None:
    async with control_plane(tmp_path) as port:
        itself = {
            "bob": Client(tmp_path, port, token=b"bobtoken"),
            "carol": Client(tmp_path, port, shown(tmp_path, "clients", "carol")),
            "proxy": Client(tmp_path, port, shown(tmp_path, "clients", "proxy")),  # called so, by another authority
        }
        nobody = {
            "nothing": Client(tmp_path, port),
            "a stranger": Client(tmp_path, port, shown(tmp_path, "strangers", "proxy")),
            "another of the proxies": Client(tmp_path, port, shown(tmp_path, "proxies", "other")),
        }
        for http2 in (False, True):
            for lines in ([], *CLAIMS):
                for name, client in itself.items():
                    found = await client.who(lines, http2=http2)
                    refused = (b"impersonate-user", b"root") in lines and found == "403"
                    assert found in (name, "400", "broken") or refused, (name, lines, http2, found)
                    assert lines or found == name
                for name, client in nobody.items():
                    found = await client.who(lines, http2=http2)
                    assert found in ("401", "403", "400", "broken", "system:anonymous"), (name, lines, http2, found)
            proxy = Client(tmp_path, port, shown(tmp_path, "proxies", "proxy"))
            assert await proxy.who([(b"x-remote-user", b"alice")], http2=http2) == "alice"
            assert await proxy.who([(b"x_remote_user", b"alice")], http2=http2) != "alice"


class Issuer:
    """An authority of the test's own."""

    def __init__(self, name: str, by: Issuer | None = None, *, ca: bool = True, ends_h: float = 24) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        by = by or self
        builder = _builder(self.name, by.name, self.key.public_key(), ends_h)
        builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
        self.certificate = builder.sign(by.key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def client(
        self, name: str, *uses: x509.ObjectIdentifier, ends_h: float = 24, signer: Issuer | None = None
    ) -> bytes:
        """A certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self.name, key.public_key(), ends_h)
        if uses:
            builder = builder.add_extension(x509.ExtendedKeyUsage(list(uses)), critical=False)
        made = builder.sign((signer or self).key, hashes.SHA256()).public_bytes(Encoding.PEM)
        return made + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _builder(subject: x509.Name, issuer: x509.Name, key: Any, ends_h: float) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(hours=ends_h))
    )


@pytest.mark.slow
async def test_certificate_chains_of_all_sorts(tmp_path: Path) -> None:
    root = Issuer("root")
    between, below, expired = Issuer("between", root), None, Issuer("expired", root, ends_h=-1)
    below = Issuer("below", between)
    impostor, no_authority = Issuer("root"), Issuer("leaf", root, ca=False)
    bundle = tmp_path / "bundle.pem"
    many, one = [], root
    for n in range(12):
        one = Issuer(f"n{n}", one)
        many.append(one)
    bundle.write_bytes(Issuer("elsewhere").certificate + root.certificate)
    config = ServerConfig(storage="memory://", data_dir=tmp_path / "data", secure_port=0, client_ca_file=bundle)
    running = await start(ControlPlane(), for_control_plane(config), SystemClock(), Silent())
    port = int(running.url.rpartition(":")[2])
    cases = {
        "a client of the root": (root.client("ann", CLIENT), "ann"),
        "without usages": (root.client("ann"), "ann"),
        "for both": (root.client("ann", CLIENT, SERVER), "ann"),
        "with its intermediate": (between.client("ann", CLIENT) + between.certificate, "ann"),
        "with two, in the wrong order": (below.client("ann", CLIENT) + between.certificate + below.certificate, "ann"),
        "with others that have nothing to do with it": (root.client("ann", CLIENT) + impostor.certificate, "ann"),
        "with the root": (root.client("ann", CLIENT) + root.certificate, "ann"),
        "for servers": (root.client("ann", SERVER), "401"),
        "expired": (root.client("ann", CLIENT, ends_h=-1), "401"),
        "without its intermediate": (between.client("ann", CLIENT), "401"),
        "with one that has expired": (expired.client("ann", CLIENT) + expired.certificate, "401"),
        "with one that is no authority": (no_authority.client("ann", CLIENT) + no_authority.certificate, "401"),
        "of an authority with the name of the root": (impostor.client("ann", CLIENT) + impostor.certificate, "401"),
        "signed by somebody else": (root.client("ann", CLIENT, signer=impostor), "401"),
        "by itself": (Issuer("ann").client("ann", CLIENT), "401"),
        "of a chain without end": (
            one.client("ann", CLIENT) + b"".join(each.certificate for each in reversed(many)),
            "401",
        ),
    }
    try:
        for what, (pem, expected) in cases.items():
            for http2 in (False, True):
                assert await Client(tmp_path, port, pem).who(http2=http2) == expected, what
    finally:
        await running.shut_down()
