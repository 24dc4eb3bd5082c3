"""Credentials stay current: files are read again, plugins run again, and nothing secret is told."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from oarlock.client.login.credentials import Credential
from oarlock.client.login.kubeconfig import ClientConfig, ClientConfigError, ExecPlugin, OIDCProvider

pytestmark = pytest.mark.anyio
SERVER = "http://127.0.0.1:1"


def plugin(tmp_path: Path, body: str) -> ExecPlugin:
    path = tmp_path / "plugin"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin(str(path), ("x",), {"HOUSE": "red"}, install_hint="ask the team", provide_cluster_info=True)


def answering(**status: object) -> str:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"print({json.dumps(answer)!r})"


async def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    credential = Credential(ClientConfig(SERVER, token_file=file))
    assert await credential.headers() == [("authorization", "Bearer one")]
    file.write_text("three\n")
    assert await credential.headers() == [("authorization", "Bearer three")]
    file.unlink()
    assert await credential.headers() == [("authorization", "Bearer three")]
    with pytest.raises(ClientConfigError, match="cannot read the token"):
        await Credential(ClientConfig(SERVER, token_file=file)).headers()


async def test_a_plugin_is_asked_once_until_its_answer_expires_or_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    text = (
        f"open({str(log)!r}, 'a').write(os.environ['KUBERNETES_EXEC_INFO'] + os.environ['HOUSE'] + sys.argv[1] + '\\n')"
    )
    config = ClientConfig(SERVER, exec_plugin=plugin(tmp_path, f"{text}\n{answering(token='abc')}"))
    credential = Credential(config)
    for _ in range(3):
        assert await credential.headers() == [("authorization", "Bearer abc")]
    [line] = log.read_text().splitlines()
    info = json.loads(line.removesuffix("redx"))
    assert info["kind"] == "ExecCredential"
    assert info["spec"]["cluster"]["server"] == SERVER
    assert await credential.renew(credential.generation)
    await credential.headers()
    assert len(log.read_text().splitlines()) == 2
    (tmp_path / "old").mkdir()
    old = plugin(tmp_path / "old", f"{text}\n{answering(token='abc', expirationTimestamp='2020-01-01T00:00:00Z')}")
    expired = Credential(ClientConfig(SERVER, exec_plugin=old))
    await expired.headers()
    await expired.headers()
    assert len(log.read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("sys.exit(3)", "ended with status 3"),
        ("print('hello')", "printed no JSON"),
        ("print('{}')", "printed no ExecCredential"),
        (answering(), "returned neither a token nor a certificate"),
        (answering(clientCertificateData="x"), "returned neither"),
        (answering(token="x", expirationTimestamp="soon"), "expirationTimestamp"),
        (answering(token="x").replace("/v1", "/v9"), "answered in version"),
        ("while True: print('x' * 100_000)", "printed more than"),
    ],
)
async def test_a_plugin_that_misbehaves_is_named(tmp_path: Path, body: str, problem: str) -> None:
    with pytest.raises(ClientConfigError, match=problem):
        await Credential(ClientConfig(SERVER, exec_plugin=plugin(tmp_path, body))).headers()


async def test_a_plugin_that_is_not_installed_comes_with_its_hint(tmp_path: Path) -> None:
    missing = ExecPlugin(str(tmp_path / "nothing"), install_hint="ask the team")
    with pytest.raises(ClientConfigError, match="nothing: No such file or directory; ask the team"):
        await Credential(ClientConfig(SERVER, exec_plugin=missing)).headers()


async def test_an_expired_login_without_a_refresh_token_says_so() -> None:
    expired = "x.eyJleHAiOiAxfQ.y"
    provider = OIDCProvider("https://127.0.0.1:1", "me", id_token=expired)
    with pytest.raises(ClientConfigError, match="no refresh-token: log in again"):
        await Credential(ClientConfig(SERVER, oidc=provider)).headers()
    assert expired not in repr(provider)
    lasting = OIDCProvider("https://127.0.0.1:1", "me", id_token="x.eyJleHAiOiA5OTk5OTk5OTk5OX0.y")
    assert await Credential(ClientConfig(SERVER, oidc=lasting)).headers() == [
        ("authorization", f"Bearer {lasting.id_token}")
    ]


async def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    config = ClientConfig("https://127.0.0.1:1", cert_data=b"no certificate", key_data=b"no key")
    with pytest.raises(ClientConfigError, match="client-certificate-data: no client certificate"):
        Credential(config).tls()
    nothing = ClientConfig("https://127.0.0.1:1", ca_file=tmp_path / "ca.crt")
    with pytest.raises(ClientConfigError, match=r"ca\.crt: no CA certificate"):
        Credential(nothing).tls()
    before = Credential(nothing).stamp()
    (tmp_path / "ca.crt").write_text("x")
    os.utime(tmp_path / "ca.crt", (1, 1))
    assert Credential(nothing).stamp() != before


@pytest.mark.parametrize(("server", "secure"), [("HTTPS://a", True), ("hTTps://a", True), ("HTTP://a", False)])
async def test_the_scheme_of_a_server_decides_on_tls_however_it_is_written(server: str, secure: bool) -> None:
    assert (Credential(ClientConfig(server)).tls() is not None) is secure


async def test_a_server_that_is_no_url_is_told() -> None:
    with pytest.raises(ClientConfigError, match="the server's address isn't a URL: net/url: invalid control character"):
        Credential(ClientConfig("h\nttps://a")).tls()
