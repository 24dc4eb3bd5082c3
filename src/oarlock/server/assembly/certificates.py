"""The serving certificates of a server, by its options: given, generated, or kept in a Secret of a cluster.

See also: `lifecycle`; ``serving.certificates``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.server.config import EVERY_INTERFACE, ServerConfig
from oarlock.server.description import ServerDescription
from oarlock.server.files.credentials import trusted_by_clients
from oarlock.server.files.reloaded import ReloadedFiles
from oarlock.server.serving.certificates.serving_pair import ensure_certificates, held_certificates
from oarlock.server.serving.certificates.tls import (
    CIPHERS,
    VERSIONS,
    BadCertificateFile,
    NamedPair,
    TLSRules,
    openssl_ciphers,
    parse_named_pair,
    reload_certificate,
    server_context,
)

if TYPE_CHECKING:
    from oarlock.client.clock import TimerClock
    from oarlock.server.cluster.certificate import ClusterCertificate

log = logging.getLogger("oarlock.server")


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """The serving certificate. `ca` is the CA clients must trust, None for one of the system's.

    `renew` replaces a generated certificate that is about to expire; then `files` are read again.
    """

    tls: ssl.SSLContext
    ca: bytes | None
    files: ReloadedFiles
    renew: Callable[[], Awaitable[None]] | None = None


def given_certificate(config: ServerConfig, certificate: Path, key: Path) -> ServingCertificate:
    """The certificate in the files that the user named."""
    files = ReloadedFiles([certificate, key], lambda: reload_certificate(tls, certificate, key), (BadCertificateFile,))
    tls = _tls(config, certificate, key)
    return ServingCertificate(tls, trusted_by_clients(certificate), files)


def kept_in_cluster(server: ServerDescription, config: ServerConfig, clock: TimerClock) -> ClusterCertificate | None:
    """The certificate that is kept in a Secret of the cluster, None if it isn't."""
    if not config.serving_certificate_secret or config.authentication_kubeconfig is None:
        return None
    from oarlock.server.cluster.certificate import (  # noqa: PLC0415 (few servers keep it there)
        ClusterCertificate,
        ClusterCertificateSettings,
    )

    settings = ClusterCertificateSettings(
        config.authentication_kubeconfig,
        config.serving_certificate_secret,
        config.tls_sans,
        tuple(server.told_by()),
        config.certificates,
    )
    return ClusterCertificate(settings, clock)


def generated_certificate(config: ServerConfig, clock: Clock) -> ServingCertificate:
    """A generated certificate, renewed before it expires."""
    host = config.bind_address
    names = [socket.gethostname() if host in EVERY_INTERFACE else host, *config.tls_sans]

    async def renew() -> None:
        try:
            await asyncio.to_thread(ensure_certificates, config.certificates, names, clock.now())
        except BadCertificateFile as error:
            log.error("the certificate can't be renewed: %s", error)

    with held_certificates(config.certificates, names, clock.now()) as made:
        pair = made.certificate, made.key
        files = ReloadedFiles(pair, lambda: reload_certificate(tls, *pair), (BadCertificateFile,))
        tls = _tls(config, *pair)
        return ServingCertificate(tls, made.ca.read_bytes(), files, renew)


def _tls(config: ServerConfig, certificate: Path, key: Path) -> ssl.SSLContext:
    ca = config.client_ca_file or config.requestheader_client_ca_file
    suites = config.tls_cipher_suites
    rules = TLSRules(VERSIONS[config.tls_min_version], openssl_ciphers(suites) if suites else CIPHERS)
    return server_context(
        certificate,
        key,
        http2=config.http2,
        client_certificates=ca is not None or config.follows_cluster,
        client_ca=ca,
        rules=rules,
    )


def named_certificates(config: ServerConfig, default: ssl.SSLContext) -> tuple[ReloadedFiles, ...]:
    """Let `default` serve the certificates for other names too: their files."""
    pairs = [parse_named_pair(text) for text in config.tls_sni_cert_key]
    if not pairs:
        return ()
    watched: list[ReloadedFiles] = []
    others: list[tuple[NamedPair, ssl.SSLContext]] = []
    for pair in pairs:
        files = pair.certificate, pair.key
        context = _tls(config, *files)

        def read(context: ssl.SSLContext = context, files: tuple[Path, Path] = files) -> None:
            reload_certificate(context, *files)
            names.refresh()

        watched.append(ReloadedFiles(files, read, (BadCertificateFile,)))
        others.append((pair, context))
    from oarlock.server.serving.certificates.sni import ServerNames  # noqa: PLC0415 (few servers have several certificates)

    names = ServerNames(default, others)
    return tuple(watched)
