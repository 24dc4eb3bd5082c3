"""Certificates by name, versions and cipher suites, and pairs of files that are replaced one after the other."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from oarlock.endpoints.http import Request, Response
from oarlock.server.config import ServerConfig
from oarlock.server.files.reloaded import ReloadedFiles
from oarlock.server.options.option import ConfigError
from oarlock.server.serving.certificates.serving_pair import ServingFiles, ensure_certificates
from oarlock.server.serving.certificates.sni import ServerNames
from oarlock.server.serving.certificates.tls import (
    BadCertificateFile,
    NamedPair,
    TLSRules,
    openssl_ciphers,
    parse_named_pair,
    reload_certificate,
    server_context,
)

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000.0
CLIENT = ssl.create_default_context()
ECDSA = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"


async def ok(request: Request) -> Response:
    return Response(200, [], b"ok")


async def shown(port: int, name: str, **how: Any) -> tuple[x509.Certificate, str, str]:
    """The certificate that a client which asks for `name` is shown, the version, and the cipher."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    for key, value in how.items():
        setattr(context, key, value)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    tls = writer.get_extra_info("ssl_object")
    der, version, cipher = tls.getpeercert(True), tls.version(), tls.cipher()[0]
    assert tls.selected_alpn_protocol() == "h2"
    writer.close()
    return x509.load_der_x509_certificate(der), version, cipher


def made(folder: Path, *names: str) -> ServingFiles:
    return ensure_certificates(folder, names, NOW)


def serial(files: ServingFiles) -> int:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes()).serial_number


def context_of(files: ServingFiles, **how: Any) -> ssl.SSLContext:
    return server_context(files.certificate, files.key, **how)


async def test_the_certificate_is_that_of_the_name(server: Any, certificates: ServingFiles, tmp_path: Path) -> None:
    shop, any_of = made(tmp_path / "shop", "shop.example.com"), made(tmp_path / "any", "*.example.com")
    own = made(tmp_path / "own", "elsewhere.example.org")
    default = context_of(certificates)
    others = [
        (NamedPair(any_of.certificate, any_of.key, ("*.example.com",)), context_of(any_of)),
        (NamedPair(shop.certificate, shop.key, ("shop.example.com",)), context_of(shop)),
        (NamedPair(own.certificate, own.key), context_of(own)),
    ]
    names = ServerNames(default, others)
    expected = {
        "shop.example.com": shop,
        "SHOP.example.com": shop,
        "bar.example.com": any_of,
        "a.bar.example.com": certificates,
        "example.com": certificates,
        "elsewhere.example.org": own,
        "other.example.org": certificates,
    }
    async with server(ok, tls=(default, CLIENT)) as s:
        for name, files in expected.items():
            assert (await shown(s.listening.port, name))[0].serial_number == serial(files), name
        renewed = ensure_certificates(tmp_path / "shop", ["shop.example.com", "more.example.net"], NOW)
        reload_certificate(others[1][1], renewed.certificate, renewed.key)
        names.refresh()
        assert (await shown(s.listening.port, "shop.example.com"))[0].serial_number == serial(renewed)


async def test_client_certificates_are_asked_for_under_every_name(
    server: Any, certificates: ServingFiles, tmp_path: Path
) -> None:
    shop = made(tmp_path / "shop", "shop.example.com")
    default = context_of(certificates, client_certificates=True)
    before = default.verify_mode
    ServerNames(default, [(NamedPair(shop.certificate, shop.key), context_of(shop, client_certificates=True))])
    assert default.verify_mode == before == ssl.CERT_OPTIONAL


async def test_versions_and_ciphers_are_those_of_the_options(server: Any, certificates: ServingFiles) -> None:
    async with server(ok, tls=(context_of(certificates, rules=TLSRules(ssl.TLSVersion.TLSv1_3)), CLIENT)) as s:
        assert (await shown(s.listening.port, "localhost"))[1] == "TLSv1.3"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await shown(s.listening.port, "localhost", maximum_version=ssl.TLSVersion.TLSv1_2)
    async with server(
        ok, tls=(context_of(certificates, rules=TLSRules(ciphers=openssl_ciphers((ECDSA,)))), CLIENT)
    ) as s:
        _, version, cipher = await shown(s.listening.port, "localhost", maximum_version=ssl.TLSVersion.TLSv1_2)
        assert (version, cipher) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")


def test_a_pair_that_is_half_written_keeps_the_old_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old, new = made(tmp_path / "old"), made(tmp_path / "new")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(old.certificate.read_bytes())
    key.write_bytes(old.key.read_bytes())
    context = server_context(certificate, key)
    read: list[int] = []

    def reload() -> None:
        reload_certificate(context, certificate, key)
        read.append(serial(ServingFiles(old.ca, certificate, key)))

    files = ReloadedFiles([certificate, key], reload, (BadCertificateFile,))
    for half in (b"", new.certificate.read_bytes()[:100], new.certificate.read_bytes()):
        certificate.write_bytes(half)
        files.check()
    assert read == []
    assert "the previous content stays in force" in caplog.text
    assert f"{key}: it is not the key of the certificate in {certificate}" in caplog.text
    key.write_bytes(new.key.read_bytes())
    files.check()
    assert read == [serial(new)]


def test_files_that_hold_both_are_taken(tmp_path: Path) -> None:
    files = made(tmp_path / "a")
    both = tmp_path / "both.pem"
    both.write_bytes(files.key.read_bytes() + files.certificate.read_bytes())
    server_context(both, both)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("a.crt,a.key", NamedPair(Path("a.crt"), Path("a.key"))),
        ("a.crt, a.key:*.Foo.com,bar", NamedPair(Path("a.crt"), Path("a.key"), ("*.foo.com", "bar"))),
    ],
)
def test_pairs_are_written_as_in_kubernetes(text: str, pair: NamedPair) -> None:
    assert parse_named_pair(text) == pair


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tls_sni_cert_key": ("a.crt",)}, "a.crt isn't a pair of files"),
        ({"tls_sni_cert_key": ("a,b:f*.example.com",)}, "* must be the first label"),
        ({"tls_min_version": "VersionTLS11"}, "must be one of VersionTLS12, VersionTLS13"),
        ({"tls_cipher_suites": ("TLS_RSA_WITH_AES_128_GCM_SHA256",)}, "isn't taken; choose of TLS_ECDHE_ECDSA"),
        ({"tls_cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, "name one of TLS 1.2 too"),
    ],
)
def test_what_cannot_be_used_is_told(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as told:
        ServerConfig(storage="memory://", **options)
    assert says in str(told.value)
