"""Authenticators of certificates, made of authorities in PEM. Each is given the file's name, for messages."""

from __future__ import annotations

from pathlib import Path

from oarlock.meta.context import Clock
from oarlock.policy.authn.certificates import ClientCertificates, load_bundle
from oarlock.policy.authn.front_proxy import FrontProxy
from oarlock.policy.authn.front_proxy_headers import FrontProxyNames
from oarlock.server.files.credentials import read_file


def clients(authorities: bytes, file: str, clock: Clock) -> ClientCertificates:
    """Believes client certificates of these authorities. Raises `CertificateBundleError`."""
    return ClientCertificates(load_bundle(authorities, file), clock)


def front_proxy(authorities: bytes, file: str, names: FrontProxyNames, clock: Clock) -> FrontProxy:
    """Believes a front proxy with a certificate of these authorities. Raises `CertificateBundleError`."""
    return FrontProxy(load_bundle(authorities, file), names, clock)


def share(left: Path, right: Path) -> bool:
    """Whether two files have an authority in common. Raises `BadFile`, `CertificateBundleError`."""
    first, second = (load_bundle(read_file(file), str(file)) for file in (left, right))
    return not set(first).isdisjoint(second)
