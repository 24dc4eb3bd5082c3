"""The certificate that a backend shows, and the authorities that a cluster trusts for it.

See also: `trust`, the handshake itself.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from cryptography import x509

from oarlock.cli.doctor.backend import ServiceBackend
from oarlock.cli.doctor.cluster import Finding, bad, fine, unknown
from oarlock.cli.doctor.trust import shake_hands
from oarlock.meta.json_trees import Tree

MOST_ADDRESSES = 3
SOON_DAYS = 14


def look_at_bundle(spec: Tree, moment: datetime) -> tuple[str | None, Finding]:
    """The authorities that the cluster trusts for this backend, None if it checks nothing or the bundle is bad."""
    if spec.get("insecureSkipTLSVerify"):
        return None, unknown("caBundle", "insecureSkipTLSVerify is set: any machine on the way could answer")
    text = spec.get("caBundle")
    if not text:
        advice = "set caBundle to the authority of the certificate"
        return None, bad("caBundle", "is empty, so only public authorities are trusted", advice)
    try:
        pem = base64.b64decode(text, validate=True)
        authorities = x509.load_pem_x509_certificates(pem)
    except (binascii.Error, ValueError):
        return None, bad(
            "caBundle", "contains no certificate", "set it to the authority's certificate in PEM, in base64"
        )
    expired = [authority for authority in authorities if authority.not_valid_after_utc <= moment]
    if len(expired) == len(authorities):
        at = f"{max(authority.not_valid_after_utc for authority in expired):%Y-%m-%d}"
        return pem.decode(), bad("caBundle", f"expired on {at}", "make a new authority and certificate")
    return pem.decode(), fine("caBundle", "is valid")


async def look_at_certificates(
    backend: ServiceBackend, bundle: str | None, *, skip: bool, now: float
) -> AsyncIterator[Finding]:
    """Connects to some addresses of the backend; a network that isn't the cluster's reaches none."""
    moment, reached = datetime.fromtimestamp(now, UTC), False
    for host, port in backend.addresses[:MOST_ADDRESSES]:
        found = await shake_hands(host, port, backend.host, bundle)
        if not found.reached:
            continue
        reached = True
        subject = f"Certificate of {host}:{port}"
        if found.problem and not skip:
            advice = _certificate_advice(found.certificate)
            yield bad(subject, f"isn't accepted for {backend.host}: {found.problem}", advice)
        elif found.certificate:
            left = x509.load_der_x509_certificate(found.certificate).not_valid_after_utc - moment
            text = f"is for {backend.host}, for {left.days} more days"
            yield fine(subject, text) if left.days > SOON_DAYS else bad(subject, text, "renew it")
    if backend.addresses and not reached:
        if backend.local:
            shown = ", ".join(f"{host}:{port}" for host, port in backend.addresses[:MOST_ADDRESSES])
            yield bad("Backend", f"no answer from {shown}", "start the server, and check its address")
        else:
            yield unknown(
                "Certificate", "no address of the backend is reachable from here: run this command in the cluster"
            )


def _certificate_advice(certificate: bytes) -> str:
    """What to do about a certificate that isn't accepted: it names what the certificate is for."""
    try:
        read = x509.load_der_x509_certificate(certificate)
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        shown = ", ".join(names.get_values_for_type(x509.DNSName)) or "no DNS name"
    except (ValueError, x509.ExtensionNotFound):
        shown = "no name"
    return f"it is for {shown}: serve a certificate that caBundle signed, or set caBundle to its authority"
