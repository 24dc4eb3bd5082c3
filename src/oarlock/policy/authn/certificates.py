"""Client certificates (x509): verified against a CA bundle; common name and organizations become user and groups.

The TLS handshake requests a certificate and accepts any, so that a bad one is answered with 401 instead of a broken
handshake. Verification happens here, once per certificate.
Must not know: TLS, sockets. Source: k8s.io/apiserver ``authentication/request/x509``; RFC 5280.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from oarlock.meta.context import Clock, User
from oarlock.meta.memo import Memo
from oarlock.policy.authn.authenticator import BadCredentials, Credentials, Identity, authenticated

__all__ = ["CertificateBundleError", "ClientCertificates", "load_bundle"]

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
CERTIFICATES_BYTES = 8 * 1024 * 1024
_LONGEST_CERTIFICATE = 8192
"""In bytes. A longer certificate is verified with each request, not cached."""
CHAIN_LIMIT = 8
_CLIENT_USES = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CertificateBundleError(ValueError):
    """The CA bundle can't be used; the text names the file."""


def load_bundle(pem: bytes, name: str) -> list[x509.Certificate]:
    """The certificates of a PEM file; `name` is the file's, for errors. Raises `CertificateBundleError`."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CertificateBundleError(f"{name}: it holds no certificate in PEM") from error


def _for_clients(policy: verification.Policy, cert: x509.Certificate, uses: x509.ExtendedKeyUsage | None) -> None:
    if uses is not None and _CLIENT_USES.isdisjoint(uses):
        raise ValueError("the certificate is not for client authentication")


def _is_authority(policy: verification.Policy, cert: x509.Certificate, basic: x509.BasicConstraints) -> None:
    if not basic.ca:
        raise ValueError("the issuer is not a certificate authority")


def _signs_certificates(policy: verification.Policy, cert: x509.Certificate, usage: x509.KeyUsage | None) -> None:
    if usage is not None and not usage.key_cert_sign:
        raise ValueError("the issuer may not sign certificates")


def _policies(authorities: Iterable[x509.Certificate]) -> verification.PolicyBuilder:
    """RFC 5280 without the web's additions: cluster authorities and their certificates have no alternative names
    and often no key usage, and Kubernetes asks for neither."""
    either = verification.Criticality.AGNOSTIC
    leaf = verification.ExtensionPolicy.permit_all().may_be_present(x509.ExtendedKeyUsage, either, _for_clients)
    authority = (
        verification.ExtensionPolicy.permit_all()
        .require_present(x509.BasicConstraints, either, _is_authority)
        .may_be_present(x509.KeyUsage, either, _signs_certificates)
        .may_be_present(x509.ExtendedKeyUsage, either, _for_clients)
    )
    store = verification.Store(list(authorities))
    return verification.PolicyBuilder().store(store).extension_policies(ca_policy=authority, ee_policy=leaf)


class ClientCertificates:
    """Authenticates clients by certificates that one of `authorities` issued."""

    waits = False

    def __init__(self, authorities: Iterable[x509.Certificate], clock: Clock) -> None:
        self._policies = _policies(authorities)
        self._clock = clock
        self._known: Memo[bytes, tuple[Identity, float, float]] = Memo(
            CERTIFICATES_BYTES, entry_bytes=1024, per_byte=3, longest_bytes=_LONGEST_CERTIFICATE
        )

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        certificate = credentials.peer.certificate
        if certificate is None:
            return None
        cached = self._known.get(certificate)
        if cached is not None and cached[1] <= self._clock.now() <= cached[2]:
            return cached[0]
        try:
            leaf = x509.load_der_x509_certificate(certificate)
            chain = [x509.load_der_x509_certificate(der) for der in credentials.peer.chain[:CHAIN_LIMIT]]
            validity = self._verify(leaf, chain)
            user = _user_of(leaf)
        except (ValueError, verification.VerificationError, x509.DuplicateExtension) as error:
            raise BadCredentials(f"x509: {error}") from None
        if user is None:
            return None
        identity = Identity(user)
        self._known.put(certificate, (identity, *validity), len(certificate))
        return identity

    def _verify(self, leaf: x509.Certificate, chain: list[x509.Certificate]) -> tuple[float, float]:
        """Verify the certificate; returns the times, in epoch seconds, between which the result may be cached."""
        now = self._clock.now()
        verifier = self._policies.time(_EPOCH + timedelta(seconds=now)).build_client_verifier()
        path = verifier.verify(leaf, chain).chain
        return (
            max(c.not_valid_before_utc.timestamp() for c in path),
            min(c.not_valid_after_utc.timestamp() for c in path),
        )


def _user_of(leaf: x509.Certificate) -> User | None:
    """The user in a verified certificate; None without a common name, as in Kubernetes."""
    names = [str(a.value) for a in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not names or not names[-1]:
        return None
    groups = tuple(str(a.value) for a in leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    fingerprint = hashlib.sha256(leaf.public_bytes(Encoding.DER)).hexdigest()
    return authenticated(User(names[-1], groups=groups, extra={CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}))
