"""Logins that expire, against real servers: OpenID Connect, plugins, certificates and authorities that are replaced."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import trustme
from boats import GROUP, Boat
from raw_server import Answer, Asked, always, raw_server, whole

from oarlock import errors
from oarlock.client import Client, ClientConfig, ClientConfigError, RetryPolicy, TransportError, connect
from oarlock.client.login.kubeconfig import ExecPlugin, OIDCProvider

pytestmark = pytest.mark.anyio
BOAT = json.dumps({"apiVersion": f"{GROUP}/v1", "kind": "Boat", "metadata": {"name": "a"}, "spec": {}}).encode()
NEVER = RetryPolicy(retries=0)


@pytest.fixture(scope="module")
def authority() -> Iterator[trustme.CA]:
    return trustme.CA()


def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def token(expires: int, name: str) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires, "sub": name}).encode()).decode().rstrip("=")
    return f"x.{claims}.y"


def accepting(*tokens: str) -> Answer:
    """A server that lets in who has one of these tokens."""

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        known = asked.headers.get("authorization", "") in [f"Bearer {one}" for one in tokens]
        writer.write(whole(BOAT) if known else whole(b"{}", "401 Unauthorized"))

    return answer


class Issuer:
    """An OpenID Connect provider: `answers` are for its token endpoint, one after another."""

    def __init__(self, *answers: bytes, **configuration: object) -> None:
        self.url = ""
        self.forms: list[dict[str, list[str]]] = []
        self.authorizations: list[str] = []
        self._answers = list(answers)
        self._configuration = configuration

    async def __call__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.path == "/login/.well-known/openid-configuration":
            configuration = {"token_endpoint": f"{self.url}/token", **self._configuration}
            writer.write(whole(json.dumps(configuration).encode()))
            return
        self.forms.append(parse_qs(asked.body.decode()))
        self.authorizations.append(asked.headers.get("authorization", ""))
        writer.write(self._answers.pop(0))


def tokens(**given: str) -> bytes:
    return whole(json.dumps(given).encode())


async def get(config: ClientConfig) -> None:
    async with connect(config, retries=NEVER) as client:
        await client.get(Boat, "a", namespace="default")


async def logged_in(issuer: Issuer, authority: trustme.CA, *accepted: str, requests: int = 1) -> None:
    """Requests with a token that has expired, which `issuer` replaces."""
    async with raw_server(issuer, server_tls(authority)) as provider, raw_server(accepting(*accepted)) as server:
        issuer.url = provider.url
        oidc = OIDCProvider(
            f"{provider.url}/login",
            "kubectl",
            "s3cret:",
            token(1, "expired"),
            "first",
            ca_data=authority.cert_pem.bytes(),
        )
        async with connect(ClientConfig(server.url, oidc=oidc), retries=NEVER) as client:
            for _ in range(requests):
                await client.get(Boat, "a", namespace="default")


async def test_an_expired_login_is_refreshed_and_its_refresh_token_replaced(authority: trustme.CA) -> None:
    soon, lasting = token(5, "a"), token(9_999_999_999, "b")
    issuer = Issuer(tokens(id_token=soon, refresh_token="second"), tokens(id_token=lasting))
    await logged_in(issuer, authority, soon, lasting, requests=4)
    assert [form["refresh_token"] for form in issuer.forms] == [["first"], ["second"]]
    assert issuer.forms[0]["grant_type"] == ["refresh_token"]
    basic = base64.b64decode(issuer.authorizations[0].removeprefix("Basic ")).decode()
    assert basic == "kubectl:s3cret%3A"


async def test_an_issuer_may_want_the_secret_in_the_form(authority: trustme.CA) -> None:
    lasting = token(9_999_999_999, "b")
    methods = ["client_secret_basic", "client_secret_post"]
    issuer = Issuer(tokens(id_token=lasting), token_endpoint_auth_methods_supported=methods)
    await logged_in(issuer, authority, lasting)
    assert issuer.forms[0]["client_secret"] == ["s3cret:"]
    assert issuer.authorizations == [""]


async def test_a_token_that_is_refused_is_renewed_once(authority: trustme.CA) -> None:
    refused, good = token(9_999_999_999, "a"), token(9_999_999_999, "b")
    issuer = Issuer(tokens(id_token=refused, refresh_token="second"), tokens(id_token=good))
    await logged_in(issuer, authority, good)
    assert len(issuer.forms) == 2
    with pytest.raises(errors.Unauthorized):
        await logged_in(Issuer(tokens(id_token=refused), tokens(id_token=refused)), authority, good)


@pytest.mark.parametrize("succeeds", [True, False])
async def test_a_hundred_requests_that_are_refused_at_once_renew_the_login_once(
    authority: trustme.CA, succeeds: bool
) -> None:
    refused, good = token(9_999_999_999, "a"), token(9_999_999_999, "b")
    answers = [tokens(id_token=good, refresh_token="second")] if succeeds else [whole(b"{}", "400 Bad Request")]
    issuer, all_sent, waiting = Issuer(*answers), asyncio.Event(), 0

    async def server_answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting
        known = asked.headers.get("authorization", "") == f"Bearer {good}"
        if not known:
            waiting += 1
            if waiting == 100:
                all_sent.set()
            await all_sent.wait()
        writer.write(whole(BOAT) if known else whole(b"{}", "401 Unauthorized"))

    async with raw_server(issuer, server_tls(authority)) as provider, raw_server(server_answer) as server:
        issuer.url = provider.url
        ca = authority.cert_pem.bytes()
        oidc = OIDCProvider(f"{provider.url}/login", "kubectl", "", refused, "first", ca_data=ca)
        async with connect(ClientConfig(server.url, oidc=oidc), retries=NEVER) as client:
            asking = [client.get(Boat, "a", namespace="default") for _ in range(100)]
            results = await asyncio.gather(*asking, return_exceptions=True)
    assert len(issuer.forms) == 1
    failed = [one for one in results if isinstance(one, BaseException)]
    assert [str(one).partition(": ")[2] for one in failed] == ([] if succeeds else ["answered 400: log in again"] * 100)


@pytest.mark.parametrize(
    ("answer", "configuration", "problem"),
    [
        (whole(b"{}", "400 Bad Request"), {}, "answered 400: log in again"),
        (whole(b"{}"), {}, "has no id_token: log in again"),
        (whole(b'{"id_token": 7}'), {}, "has no id_token"),
        (whole(b"hello"), {}, "/token: "),
        (whole(b"[" * 2_000_000), {}, "/token: "),
        (b"rubbish\r\n\r\n", {}, "/token: "),
        (tokens(id_token="a\nb"), {}, "id-token: the token has characters"),
        (b"", {"token_endpoint": "http://127.0.0.1:1/token"}, "names no https token_endpoint"),
        (b"", {"token_endpoint": 7}, "names no https token_endpoint"),
    ],
)
async def test_what_an_issuer_does_wrong_is_told_in_one_line(
    authority: trustme.CA, answer: bytes, configuration: dict[str, object], problem: str
) -> None:
    with pytest.raises(ClientConfigError, match=problem) as error:
        await logged_in(Issuer(answer, **configuration), authority, "x")
    assert "\n" not in str(error.value)
    assert "s3cret" not in str(error.value)


async def test_an_issuer_that_nobody_vouches_for_gets_nothing(authority: trustme.CA) -> None:
    issuer = Issuer(tokens(id_token="x"))
    with pytest.raises(ClientConfigError, match="failed to verify certificate"):
        await logged_in(issuer, _Other(authority), "x")
    assert not issuer.forms


class _Other(trustme.CA):
    """Signs with one authority, and names another."""

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__()
        self._signs = authority

    def issue_cert(self, *names: str) -> trustme.LeafCert:  # type: ignore[override]
        return self._signs.issue_cert(*names)


def plugin(folder: Path, body: str) -> ExecPlugin:
    """A program that counts its runs in `number`, and prints the status that `body` makes."""
    path = folder / "login"
    count = folder / "count"
    count.write_text("0")
    program = (
        f"#!{sys.executable}\nimport json, pathlib\ncount = pathlib.Path({str(count)!r})\n"
        f"number = int(count.read_text()) + 1\ncount.write_text(str(number))\n{body}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', "
        "'status': status}))\n"
    )
    path.write_text(program)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin(str(path))


async def test_a_plugin_is_run_again_when_its_token_is_refused(tmp_path: Path) -> None:
    login = plugin(tmp_path, "status = {'token': f't{number}'}")
    async with raw_server(accepting("t2")) as server:
        async with connect(ClientConfig(server.url, exec_plugin=login), retries=NEVER) as client:
            await client.get(Boat, "a", namespace="default")
            await client.get(Boat, "a", namespace="default")
        sent = [one.headers["authorization"] for one in server.asked]
    assert sent == ["Bearer t1", "Bearer t2", "Bearer t2"]


async def test_a_hundred_requests_that_are_refused_at_once_run_a_plugin_once(tmp_path: Path) -> None:
    login = plugin(tmp_path, "status = {'token': f't{number}'}")
    all_sent, waiting = asyncio.Event(), 0

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting
        known = asked.headers.get("authorization", "") == "Bearer t2"
        if not known:
            waiting += 1
            if waiting == 100:
                all_sent.set()
            await all_sent.wait()
        writer.write(whole(BOAT) if known else whole(b"{}", "401 Unauthorized"))

    async with (
        raw_server(answer) as server,
        connect(ClientConfig(server.url, exec_plugin=login), retries=NEVER) as client,
    ):
        await asyncio.gather(*(client.get(Boat, "a", namespace="default") for _ in range(100)))
    assert (tmp_path / "count").read_text() == "2"


async def test_requests_at_the_same_time_share_one_run(tmp_path: Path) -> None:
    login = plugin(tmp_path, "status = {'token': 't'}")
    async with (
        raw_server(accepting("t")) as server,
        connect(ClientConfig(server.url, exec_plugin=login), retries=NEVER) as client,
    ):
        await asyncio.gather(*(client.get(Boat, "a", namespace="default") for _ in range(5)))
    assert (tmp_path / "count").read_text() == "1"


async def test_a_plugin_may_answer_certificates_that_rotate(tmp_path: Path, authority: trustme.CA) -> None:
    for number in (1, 2):
        leaf = authority.issue_cert(f"client-{number}.example.com")
        (tmp_path / f"cert{number}").write_bytes(leaf.cert_chain_pems[0].bytes())
        (tmp_path / f"key{number}").write_bytes(leaf.private_key_pem.bytes())
    body = (
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "status = {'clientCertificateData': (folder / f'cert{min(number, 2)}').read_text(),\n"
        "          'clientKeyData': (folder / f'key{min(number, 2)}').read_text(),\n"
        "          'expirationTimestamp': '2020-01-01T00:00:00Z'}"
    )
    tls = server_tls(authority)
    tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(tls)
    shown: list[str] = []

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("peercert")
        shown.append(certificate["subjectAltName"][0][1])
        writer.write(whole(BOAT))

    async with raw_server(answer, tls) as server:
        config = ClientConfig(server.url, exec_plugin=plugin(tmp_path, body), ca_data=authority.cert_pem.bytes())
        async with connect(config, retries=NEVER) as client:
            for _ in range(3):
                await client.get(Boat, "a", namespace="default")
        assert shown == ["client-1.example.com", "client-2.example.com", "client-2.example.com"]
        assert server.connections == 2, "a connection is kept as long as its certificate is the newest"


async def test_an_authority_that_is_replaced_is_trusted_without_a_restart(
    tmp_path: Path, authority: trustme.CA
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(trustme.CA().cert_pem.bytes())
    async with raw_server(always(whole(BOAT)), server_tls(authority)) as server:
        async with connect(ClientConfig(server.url, ca_file=file), retries=NEVER) as client:
            with pytest.raises(TransportError, match="failed to verify certificate") as error:
                await client.get(Boat, "a", namespace="default")
            assert not error.value.sent
            file.write_bytes(authority.cert_pem.bytes() + b"\n")
            await client.get(Boat, "a", namespace="default")
        await get(replace(ClientConfig(server.url), insecure=True))


async def test_requests_go_through_a_proxy() -> None:
    async with raw_server(always(whole(BOAT))) as proxy:
        await get(ClientConfig("http://shop.example.com", proxy_url=proxy.url))
        assert proxy.asked[0].path.startswith("http://shop.example.com/apis/")
        assert proxy.asked[0].headers["host"] == "shop.example.com"
    async with raw_server(always(whole(b"", "403 Forbidden"))) as proxy:
        url = proxy.url.replace("http://", "http://me:s3cret@")
        with pytest.raises(TransportError, match="403") as error:
            await get(ClientConfig("https://shop.example.com", proxy_url=url))
        assert "s3cret" not in str(error.value)
        assert (proxy.asked[0].method, proxy.asked[0].path) == ("CONNECT", "shop.example.com:443")
        assert proxy.asked[0].headers["proxy-authorization"].startswith("Basic ")


async def test_a_socks_proxy_without_its_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_socks", None)
    with pytest.raises(ClientConfigError, match=r"proxy-url: a SOCKS proxy needs .*oarlock\[socks\]"):
        connect(ClientConfig("https://shop.example.com", proxy_url="socks5://127.0.0.1"))


async def test_a_client_is_closed_with_its_connections() -> None:
    async with raw_server(always(whole(BOAT))) as server:
        client: Client = connect(ClientConfig(server.url))
        await client.get(Boat, "a", namespace="default")
        await client.close()
        await client.close()
