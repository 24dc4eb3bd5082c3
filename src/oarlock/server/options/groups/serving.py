"""Options of the listener: address, HTTP/2, certificates."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.meta.names import dns1123_label, dns1123_subdomain
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import (
    BooleanType,
    IntegerType,
    PathType,
    SeparateListType,
    StringListType,
    StringType,
)
from oarlock.server.serving.certificates.tls import VERSIONS, cipher_suite, openssl_ciphers, parse_named_pair


def _host(text: str) -> str:
    """A DNS name, also of a wildcard, or an IP address. Raises ValueError."""
    name = text.lower()
    try:
        ipaddress.ip_address(name)
    except ValueError:
        if dns1123_subdomain(name.removeprefix("*.")):
            raise ValueError(f"{text} is neither a DNS name nor an IP address") from None
    return name


def _named_pair(text: str) -> str:
    parse_named_pair(text)
    return text


@dataclass(frozen=True, kw_only=True, repr=False)
class ServingOptions(OptionGroup):
    title = "Secure serving"

    bind_address: str = option(
        "127.0.0.1", StringType("IP"), "Listen on this address. 0.0.0.0 and :: mean every address."
    )
    secure_port: int = option(6443, IntegerType("PORT", maximum=65535), "Listen on this port. 0 is any free port.")
    http2: bool = option(True, BooleanType(), "Serve HTTP/2 as well as HTTP/1.1.")
    cert_dir: Path | None = option(
        None,
        PathType("DIR"),
        "The directory of generated certificates. By default pki in --data-dir.",
    )
    tls_cert_file: Path | None = option(None, PathType(), "The serving certificate (PEM, followed by intermediates).")
    tls_private_key_file: Path | None = option(None, PathType(), "The key of --tls-cert-file.")
    tls_sans: tuple[str, ...] = option(
        (),
        StringListType("NAMES", _host),
        "More names and addresses of the generated certificate: db.example.com,10.0.0.7,*.example.com.",
        flag="tls-san",
    )
    serving_certificate_secret: str = option(
        "",
        StringType("NAMESPACE/NAME"),
        "Keep a certificate for --tls-san in this Secret of the cluster of --authentication-kubeconfig, renew it, "
        "and write its authority into the APIServices of the served resources.",
    )
    tls_min_version: str = option(
        "VersionTLS12", StringType("VERSION"), "The lowest TLS version: VersionTLS12 or VersionTLS13."
    )
    tls_cipher_suites: tuple[str, ...] = option(
        (),
        StringListType("SUITES", cipher_suite),
        "The cipher suites of TLS 1.2, by Go's names. By default those with forward secrecy and AEAD.",
    )
    tls_sni_cert_key: tuple[str, ...] = option(
        (),
        SeparateListType("PAIR", _named_pair),
        "Another certificate for clients that request these names: cert.pem,key.pem:*.example.com. Without names, "
        "it serves the names in the certificate. Repeat it for more.",
    )
    http2_max_streams_per_connection: int = option(
        0, IntegerType(maximum=10_000), "How many requests an HTTP/2 connection may execute at a time. 0 means 250."
    )

    def check(self) -> Iterator[Problem]:
        if self.tls_min_version not in VERSIONS:
            yield Problem("tls_min_version", f"must be one of {', '.join(VERSIONS)}: older versions are insecure")
        if self.tls_cipher_suites:
            try:
                openssl_ciphers(self.tls_cipher_suites)
            except ValueError as error:
                yield Problem("tls_cipher_suites", str(error))
        if self.tls_private_key_file is None and self.tls_cert_file is not None:
            yield Problem("tls_cert_file", "must be given together with `tls_private_key_file`")
        if self.tls_cert_file is None and self.tls_private_key_file is not None:
            yield Problem("tls_private_key_file", "must be given together with `tls_cert_file`")
        if self.serving_certificate_secret:
            yield from self._check_secret()
        if self.tls_sans and self.tls_cert_file is not None:
            yield Problem(
                "tls_sans", "is for generated certificates and can't be combined with `tls_cert_file`: leave one out"
            )

    def _check_secret(self) -> Iterator[Problem]:
        namespace, _, name = self.serving_certificate_secret.partition("/")
        if dns1123_label(namespace) or dns1123_subdomain(name):
            yield Problem("serving_certificate_secret", "must be a namespace and a name, such as shop/shop-certificate")
        if self.tls_cert_file is not None:
            yield Problem("serving_certificate_secret", "can't be combined with `tls_cert_file`: leave one out")
        if not self.tls_sans:
            yield Problem("serving_certificate_secret", "needs `tls_sans`, the names of the certificate")
