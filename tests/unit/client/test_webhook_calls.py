"""Calls of webhooks: whom they trust, where they go, and the connections that are kept for them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme
from conversion_service import ConversionService

from oarlock.client import webhooks as webhook_calls
from oarlock.client.login.kubeconfig import ClientConfig
from oarlock.client.webhooks import WebhookCalls, WebhookError, WebhookService, WebhookTarget

pytestmark = pytest.mark.anyio

REVIEW = b'{"apiVersion":"a/v1","request":{"uid":"u","desiredAPIVersion":"a/v2","objects":[]}}'


@pytest.fixture
async def service() -> AsyncIterator[ConversionService]:
    one = ConversionService()
    yield one
    await one.close()


@pytest.fixture
async def calls(service: ConversionService) -> AsyncIterator[WebhookCalls]:
    async def find(reference: WebhookService) -> str:
        assert (reference.namespace, reference.name, reference.port) == ("web", "hook", 443)
        return f"127.0.0.1:{service.port}"

    made = WebhookCalls(find)
    yield made
    await made.close()


def certified(*names: str) -> tuple[ssl.SSLContext, bytes]:
    """A server's side of TLS, and the CA that vouches for these names."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context, authority.cert_pem.bytes()


async def post(calls: WebhookCalls, target: WebhookTarget) -> bytes:
    return await calls.post(target, REVIEW, timeout_s=5, most_bytes=10_000)


async def test_only_the_bundle_is_trusted(service: ConversionService, calls: WebhookCalls):
    context, ca = certified("127.0.0.1")
    url = await service.start(context)
    assert b"Success" in await post(calls, WebhookTarget(url, None, ca))
    unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    for bundle in (b"", certified("127.0.0.1")[1]):
        with pytest.raises(WebhookError) as refused:
            await post(calls, WebhookTarget(url, None, bundle))
        assert str(refused.value) == f'Post "{url}?timeout=5s": {unknown}'


async def test_a_certificate_of_another_host(service: ConversionService, calls: WebhookCalls):
    context, ca = certified("somewhere.example.com")
    url = await service.start(context)
    with pytest.raises(WebhookError, match=r"x509: certificate is not valid for 127\.0\.0\.1"):
        await post(calls, WebhookTarget(url, None, ca))


async def test_a_bundle_without_a_certificate(calls: WebhookCalls):
    with pytest.raises(WebhookError, match=r"no CA certificate"):
        await post(calls, WebhookTarget("https://127.0.0.1:1/x", None, b"nothing"))


async def test_behind_a_service_the_name_of_the_service_counts(service: ConversionService, calls: WebhookCalls):
    context, ca = certified("hook.web.svc")
    await service.start(context)
    target = WebhookTarget.of("", WebhookService("web", "hook", path="/convert"), ca)
    assert target.url == "https://hook.web.svc:443/convert"
    assert b"Success" in await post(calls, target)
    assert "host: hook.web.svc:443" in service.heads[0].lower().split("\r\n")
    assert service.heads[0].startswith("POST /convert?timeout=5s ")


@pytest.mark.parametrize(
    ("service", "url"),
    [
        (None, "https://a.example.com/x"),
        (WebhookService("n", "s"), "https://s.n.svc:443"),
        (WebhookService("n", "s", 9, "x/y"), "https://s.n.svc:9/x/y"),
    ],
)
def test_where_a_configuration_leads(service: WebhookService | None, url: str):
    assert WebhookTarget.of("https://a.example.com/x", service, b"").url == url


async def test_connections_to_few_servers_are_kept(
    service: ConversionService, calls: WebhookCalls, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(webhook_calls, "MOST_SERVERS", 2)
    url = await service.start()
    others = [ConversionService() for _ in range(3)]
    for other in others:
        await post(calls, WebhookTarget(await other.start()))
    assert len(calls._servers) == 2
    assert b"Success" in await post(calls, WebhookTarget(url))
    for other in others:
        await other.close()


def client_context(authority: trustme.CA, ca_of_clients: trustme.CA) -> ssl.SSLContext:
    """A server's side of TLS that wants to see certificates of clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    ca_of_clients.configure_trust(context)
    return context


def write_certificate(folder: Path, authority: trustme.CA) -> None:
    certificate = authority.issue_cert("client.example.com")
    (folder / "key.pem").write_bytes(certificate.private_key_pem.bytes())
    (folder / "cert.pem").write_bytes(certificate.cert_chain_pems[0].bytes())


async def test_client_certificates_are_read_again(service: ConversionService, tmp_path: Path):
    authority, clients = trustme.CA(), trustme.CA()
    url = await service.start(client_context(authority, clients))
    write_certificate(tmp_path, trustme.CA())
    asked: list[str] = []

    def credentials(host: str) -> ClientConfig:
        asked.append(host)
        return ClientConfig("", cert_file=tmp_path / "cert.pem", key_file=tmp_path / "key.pem", token="t")

    calls = WebhookCalls(no_services, credentials)
    target = WebhookTarget(url, None, authority.cert_pem.bytes())
    try:
        with pytest.raises(WebhookError):
            await post(calls, target)
        write_certificate(tmp_path, clients)
        assert b"Success" in await post(calls, target)
        (tmp_path / "cert.pem").write_text("half writ")
        assert b"Success" in await post(calls, target)  # what is half written doesn't count
        assert asked == [f"127.0.0.1:{service.port}"] * 3
        assert "authorization: bearer t" in service.heads[0].lower().split("\r\n")
    finally:
        await calls.close()


async def no_services(service: WebhookService) -> str:
    raise WebhookError(f"there is no {service.name}")


async def test_the_scheme_decides_on_tls_however_it_is_written(service: ConversionService, calls: WebhookCalls):
    context, ca = certified("127.0.0.1")
    url = await service.start(context)
    for spelled in (url.replace("https", "HTTPS"), url.replace("https", "hTTps"), url):
        assert b"Success" in await post(calls, WebhookTarget(spelled, None, ca))
    assert len(calls._servers) == 1


@pytest.mark.parametrize("prefix", [" ", "\t", "\n", "h\n"])
async def test_what_is_no_url_is_never_called(service: ConversionService, calls: WebhookCalls, prefix: str):
    context, ca = certified("127.0.0.1")
    url = await service.start(context)
    with pytest.raises(WebhookError, match="Unparsable URL: parse "):
        await post(calls, WebhookTarget(prefix + url.removeprefix("h" * (len(prefix) - 1)), None, ca))
    assert b"Success" in await post(calls, WebhookTarget(url, None, ca))
    assert len(service.heads) == 1


async def test_paths_are_cleaned(service: ConversionService, calls: WebhookCalls):
    url = (await service.start()).removesuffix("/convert")
    for path in ("", "/", "//convert", "/a/../b/", "/a%2Fb/%C3%A9"):
        await post(calls, WebhookTarget(url + path))
    assert [head.split("?")[0] for head in service.heads] == [
        *("POST /", "POST /", "POST /convert", "POST /b", "POST /a/b/%C3%A9"),
    ]
    await service.close()
    with pytest.raises(WebhookError, match=rf'^Post "{url}/convert\?timeout=5s": '):
        await post(WebhookCalls(no_services), WebhookTarget(f"{url}//convert"))


async def test_a_bundle_that_is_the_servers_own_certificate_is_believed(
    service: ConversionService, calls: WebhookCalls
):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    url = await service.start(context)
    assert b"Success" in await post(calls, WebhookTarget(url, None, certificate.cert_chain_pems[0].bytes()))


async def test_a_port_that_doesnt_exist(calls: WebhookCalls):
    with pytest.raises(WebhookError, match=r'^Post "https://h:99999/\?timeout=5s": dial tcp: address h:99999: invalid'):
        await post(calls, WebhookTarget("https://h:99999"))
