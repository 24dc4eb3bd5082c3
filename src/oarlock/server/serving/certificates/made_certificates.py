"""Makes what is missing of a CA and a serving certificate, or soon at its end. See also: `certs`, which calls it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from oarlock.server.serving.certificates.issuing import (
    CertificatePair,
    alternative_names,
    issue,
    new_authority,
    pair_of,
    read_certificate,
    write_pair,
)
from oarlock.server.serving.certificates.tried_certificates import KeptPair

__all__ = ["complete"]


def complete(authority: KeptPair, serving: KeptPair, hosts: Sequence[str], moment: datetime, rest: timedelta) -> None:
    """Make each of both certificates again unless it does for `hosts`, and longer than `rest` from `moment` on.

    A serving certificate that fits is kept. Raises `BadCertificateFile` for files that can't be read, or don't belong
    together: they are never overwritten.
    """
    signer = _authority(authority, moment, rest)
    current = read_certificate(serving.certificate)
    if current is not None and serving.key.exists() and _fits(current, signer.certificate, hosts, moment, rest):
        pair_of(current, serving.certificate, serving.key)
        return
    write_pair(serving.certificate, serving.key, issue(signer, hosts, moment))


def _authority(files: KeptPair, moment: datetime, rest: timedelta) -> CertificatePair:
    certificate = read_certificate(files.certificate)
    if certificate is not None and certificate.not_valid_after_utc - moment > rest:
        return pair_of(certificate, files.certificate, files.key)
    pair = new_authority(moment)
    write_pair(files.certificate, files.key, pair)
    return pair


def _fits(
    current: x509.Certificate, authority: x509.Certificate, hosts: Sequence[str], moment: datetime, rest: timedelta
) -> bool:
    if current.not_valid_after_utc - moment <= rest or current.not_valid_before_utc > moment:
        return False
    try:
        current.verify_directly_issued_by(authority)
        present = current.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return set(alternative_names(hosts)) <= set(present)
