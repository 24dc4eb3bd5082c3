"""Tokens, client authorities and certificates that are replaced while a server runs: in force from then on."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest
from client_certificates import issue_client
from walk_kit import walk

from oarlock.meta.context import Peer, User
from oarlock.policy.authn.authenticator import BadCredentials, Credentials
from oarlock.server.assembly.identities import Identities
from oarlock.server.config import ServerConfig
from oarlock.server.files.reloaded import ReloadedFiles, reload_changed
from oarlock.server.options.commands import read_options
from oarlock.server.options.option import ConfigError
from oarlock.server.serving.certificates.serving_pair import ensure_certificates
from oarlock.server.serving.certificates.tls import BadCertificateFile, reload_certificate, server_context
from oarlock.testing.clock import VirtualClock


class Refused(Exception):
    """The file can't be used."""


async def user_of(known, *, token: str = "", certificate: bytes | None = None) -> User | None:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        peer = Peer("192.0.2.1", 1, certificate)
        identity = await known.authenticator.authenticate(Credentials(headers, tuple(headers.items()), peer))
    except BadCredentials:
        return None
    return None if identity is None else identity.user


@walk
async def test_a_token_file_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    file = tmp_path / "tokens.csv"
    file.write_text("first,alice,1\n")
    known = Identities(ServerConfig(storage=f"sqlite:///{tmp_path}/a.db", token_auth_file=file), VirtualClock())
    assert (await user_of(known, token="first")).name == "alice"  # type: ignore[union-attr]
    file.write_text("second,bob,2\n")
    for one in known.files:
        one.check()
    assert await user_of(known, token="first") is None
    assert (await user_of(known, token="second")).name == "bob"  # type: ignore[union-attr]
    caplog.clear()
    file.write_text("not,enough\n")
    for _ in range(3):
        for one in known.files:
            one.check()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "tokens.csv, line 1" in caplog.text
    assert (await user_of(known, token="second")).name == "bob"  # type: ignore[union-attr]
    file.unlink()
    for one in known.files:
        one.check()
    assert (await user_of(known, token="second")).name == "bob"  # type: ignore[union-attr]


@walk
async def test_the_admin_s_token_may_be_replaced(tmp_path: Path):
    config = ServerConfig(storage=f"sqlite:///{tmp_path}/a.db")
    known = Identities(config, VirtualClock())
    config.admin_token.write_text("x" * 40 + "\n")
    for one in known.files:
        one.check()
    assert (await user_of(known, token="x" * 40)).name == "admin"  # type: ignore[union-attr]
    assert await user_of(known, token=known.tokens_in_file[0][0]) is None


@walk
async def test_a_bundle_of_client_authorities_is_read_again(tmp_path: Path):
    clock = VirtualClock()
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        ensure_certificates(folder, (), clock.now())
    presented = [
        ssl.PEM_cert_to_DER_cert(issue_client(folder, "carol", (), clock.now())[0].decode()) for folder in (old, new)
    ]
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes((old / "ca.crt").read_bytes())
    known = Identities(ServerConfig(storage=f"sqlite:///{tmp_path}/a.db", client_ca_file=bundle), clock)
    assert [bool(await user_of(known, certificate=one)) for one in presented] == [True, False]
    bundle.write_bytes((new / "ca.crt").read_bytes())
    for one in known.files:
        one.check()
    assert [bool(await user_of(known, certificate=one)) for one in presented] == [False, True]


def test_a_certificate_is_served_from_the_next_handshake_on(tmp_path: Path):
    made = ensure_certificates(tmp_path / "a", (), 1.8e9)
    other = ensure_certificates(tmp_path / "b", (), 1.8e9)
    context = server_context(made.certificate, made.key)
    files = ReloadedFiles(
        [made.certificate, made.key],
        lambda: reload_certificate(context, made.certificate, made.key),
        (BadCertificateFile,),
    )
    assert _served(context) == made.certificate.read_text()
    made.certificate.write_bytes(other.certificate.read_bytes())
    files.check()  # half of a pair: refused, and the old one is served
    assert _served(context) != other.certificate.read_text()
    made.key.write_bytes(other.key.read_bytes())
    files.check()
    assert _served(context) == other.certificate.read_text()


def _served(context: ssl.SSLContext) -> str:
    """The certificate that a client is shown, over memory."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_mode = ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(back, there)
    server = context.wrap_bio(there, back, server_side=True)
    for _ in range(5):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = client.getpeercert(True)
    assert shown is not None
    return ssl.DER_cert_to_PEM_cert(shown)


@walk
async def test_files_are_looked_at_every_few_seconds_and_expiry_every_hour(tmp_path: Path):
    file = tmp_path / "a"
    file.write_text("1")
    read: list[str] = []
    renewed: list[float] = []
    loop = asyncio.get_running_loop()

    async def renew() -> None:
        renewed.append(loop.time())

    began = loop.time()
    task = asyncio.create_task(
        reload_changed([ReloadedFiles([file], lambda: read.append(file.read_text()), (Refused,))], renew)
    )
    await asyncio.sleep(60)
    assert read == []
    file.write_text("two")
    await asyncio.sleep(6)
    assert read == ["two"]
    await asyncio.sleep(3 * 3600)
    task.cancel()
    assert read == ["two"]
    assert [round((moment - began) / 3600) for moment in renewed] == [1, 2, 3]


def test_the_generated_certificate_is_for_the_names_that_are_given():
    config = _config("--tls-san=DB.example.com, 10.0.0.7,*.apps.example.com,db.example.com,::2")
    assert config.tls_sans == ("db.example.com", "10.0.0.7", "*.apps.example.com", "::2")
    for wrong in ("a b", "https://x", "-x", "*", "x.*.y", "a..b"):
        with pytest.raises(ConfigError, match="--tls-san"):
            _config(f"--tls-san={wrong}")
    with pytest.raises(ConfigError, match="--tls-san"):
        _config("--tls-san=x", "--tls-cert-file=c", "--tls-private-key-file=k")


def _config(*words: str) -> ServerConfig:
    return read_options(ServerConfig, words, "oarlock serve")
