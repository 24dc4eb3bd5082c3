"""The certificate by which backends know this server as their front proxy, and the authority that signs it, in files.

Files: ``front-proxy-ca.crt``, ``front-proxy-ca.key``, ``front-proxy-client.crt``, ``front-proxy-client.key``, as
kubeadm calls them; keys are readable by their owner only. The certificate lasts a year and is replaced 30 days before
its end. The authority lasts ten years. Its successor is made 60 days before the end and signs nothing for a month or
so, in which backends learn of it; the former one stays in the file until its end.
Must not know: who publishes the authorities. See also: `kept_pairs`; `certs`, what clients of this server see.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from oarlock.meta.dataclass import dataclass
from oarlock.server.serving.certificates.folder import locked_directory
from oarlock.server.serving.certificates.issuing import CertificatePair, issue_client, new_authority
from oarlock.server.serving.certificates.kept_pairs import pair_of, read_bundle, read_certificate, write_pair

__all__ = ["FRONT_PROXY_NAME", "FrontProxyFiles", "ensure_front_proxy"]

FRONT_PROXY_NAME = "front-proxy-client"
"""The common name of the certificate."""

RENEW = timedelta(days=30)
RENEW_AUTHORITY = timedelta(days=60)


@dataclass(frozen=True, slots=True)
class FrontProxyFiles:
    """The paths of the certificate and its key, and in PEM the authorities that backends must trust."""

    certificate: Path
    key: Path
    authorities: bytes


def ensure_front_proxy(directory: Path, now: float) -> FrontProxyFiles:
    """The certificate in `directory`, made if missing or soon at its end; `now` is in seconds since the epoch.

    However many processes call it at once, they get the same. Files left incomplete by a crash are completed. Waits for
    locks and disks: call it in a thread. Raises `BadCertificateFile` for files that can't be read or written, or don't
    belong together.
    """
    moment = datetime.fromtimestamp(now, UTC)
    certificate, key = directory / f"{FRONT_PROXY_NAME}.crt", directory / f"{FRONT_PROXY_NAME}.key"
    with locked_directory(directory):
        authority, former = _authorities(directory, moment)
        trusted = (authority.certificate, *former)
        current = read_certificate(certificate)
        if current is None or not key.exists() or not _fits(current, trusted, moment):
            write_pair(certificate, key, issue_client(authority, FRONT_PROXY_NAME, moment))
        else:
            pair_of(current, certificate, key)
    return FrontProxyFiles(certificate, key, b"".join(authority.public_bytes(Encoding.PEM) for authority in trusted))


def _authorities(directory: Path, moment: datetime) -> tuple[CertificatePair, list[x509.Certificate]]:
    """The one that signs, and former ones that haven't ended."""
    certificate_file, key_file = directory / "front-proxy-ca.crt", directory / "front-proxy-ca.key"
    known = read_bundle(certificate_file)
    lasting = [certificate for certificate in known if certificate.not_valid_after_utc > moment]
    if lasting and lasting[0] is known[0] and lasting[0].not_valid_after_utc - moment > RENEW_AUTHORITY:
        return pair_of(lasting[0], certificate_file, key_file), lasting[1:]
    pair = new_authority(moment, "oarlock-front-proxy-ca")
    write_pair(certificate_file, key_file, pair, lasting)
    return pair, lasting


def _fits(current: x509.Certificate, trusted: tuple[x509.Certificate, ...], moment: datetime) -> bool:
    names = [attribute.value for attribute in current.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if names != [FRONT_PROXY_NAME] or current.not_valid_before_utc > moment:
        return False
    return current.not_valid_after_utc - moment > RENEW and any(_signed(current, by) for by in trusted)


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True
