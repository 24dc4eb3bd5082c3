"""Client certificates (x509): verified against a CA bundle; common name and organizations become user and groups.

The TLS handshake requests a certificate and accepts any, so that a bad one is answered with 401 instead of a broken
handshake. Verification happens here, once per certificate.
Must not know: TLS, sockets. Source: k8s.io/apiserver ``authentication/request/x509``; RFC 5280.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from oarlock.meta.context import Clock, Peer, User
from oarlock.meta.go.gotext import quote
from oarlock.meta.memo import Memo
from oarlock.policy.authn.authenticator import (
    UNDECIDED,
    BadCredentials,
    CertificateBundleError,
    Credentials,
    Identity,
    authenticated,
)

T = TypeVar("T")

UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""The attribute of a subject that is the user's uid in Kubernetes."""
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
CERTIFICATES_BYTES = 8 * 1024 * 1024
_LONGEST_CERTIFICATE = 8192
"""In bytes. A longer certificate is verified with each request, not cached."""
CHAIN_LIMIT = 8
_CLIENT_USES = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def load_bundle(pem: bytes, name: str) -> list[x509.Certificate]:
    """The certificates of a PEM file; `name` is the file's, for errors. Raises `CertificateBundleError`."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CertificateBundleError(f"{name}: it contains no certificate in PEM") from error


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


class CertificateCheck(Generic[T]):
    """Verifies the certificates of clients against `authorities`, each once.

    `read` gets from a verified certificate what is wanted of it, which is remembered with it.
    """

    def __init__(
        self, authorities: Iterable[x509.Certificate], clock: Clock, read: Callable[[x509.Certificate], T]
    ) -> None:
        self._authorities = tuple(authorities)
        self._policies = _policies(self._authorities)
        self._clock = clock
        self._read = read
        self._known: Memo[bytes, tuple[T, float, float]] = Memo(
            CERTIFICATES_BYTES, entry_bytes=1024, per_byte=3, longest_bytes=_LONGEST_CERTIFICATE
        )

    def remembered(self, certificate: bytes) -> tuple[T, float, float] | None:
        """What is remembered of a certificate that is valid now: the result, and from when to when."""
        known = self._known.get(certificate)
        return known if known is not None and known[1] <= self._clock.now() <= known[2] else None

    def verified(self, certificate: bytes, chain: Sequence[bytes]) -> T:
        """What `read` makes of the certificate. Raises `BadCredentials` unless an authority has issued it."""
        known = self.remembered(certificate)
        if known is not None:
            return known[0]
        try:
            leaf = x509.load_der_x509_certificate(certificate)
            further = [x509.load_der_x509_certificate(der) for der in chain[:CHAIN_LIMIT]]
            validity = self._verify(leaf, further)
            result = self._read(leaf)
        except (ValueError, x509.DuplicateExtension) as error:
            raise BadCredentials(f"x509: {error}") from None
        self._known.put(certificate, (result, *validity), len(certificate))
        return result

    def _verify(self, leaf: x509.Certificate, chain: list[x509.Certificate]) -> tuple[float, float]:
        """Verify the certificate; returns the times, in epoch seconds, between which the result may be cached."""
        now = _EPOCH + timedelta(seconds=self._clock.now())
        try:
            if leaf.version is x509.Version.v1:
                path = self._path_of_version_1(leaf, chain, now)
            else:
                path = self._path(leaf, chain, now)
        except verification.VerificationError as error:
            raise ValueError(_refusal(leaf, (*chain, *self._authorities), now, error)) from None
        return (
            max(c.not_valid_before_utc.timestamp() for c in path),
            min(c.not_valid_after_utc.timestamp() for c in path),
        )

    def _path(self, leaf: x509.Certificate, chain: list[x509.Certificate], now: datetime) -> list[x509.Certificate]:
        return self._policies.time(now).build_client_verifier().verify(leaf, chain).chain

    def _path_of_version_1(
        self, leaf: x509.Certificate, chain: list[x509.Certificate], now: datetime
    ) -> list[x509.Certificate]:
        """The path of a certificate without extensions, which tools make unless told otherwise, and Go takes.

        It has no extension that could forbid its use. Its authorities are verified as for other certificates.
        """
        if not leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc:
            raise verification.VerificationError
        if isinstance(leaf.signature_hash_algorithm, hashes.SHA1 | hashes.MD5):
            raise verification.VerificationError("x509: cannot verify signature: insecure algorithm")
        why: verification.VerificationError = verification.VerificationError()
        for issuer in (*self._authorities, *chain):
            if issuer.subject != leaf.issuer:
                continue
            try:
                leaf.verify_directly_issued_by(issuer)
                path = [issuer] if issuer in self._authorities else self._path(issuer, chain, now)
                _check_authorities(path, now)
            except (ValueError, TypeError, InvalidSignature, verification.VerificationError) as error:
                why = verification.VerificationError(str(error) or "verification error")
            else:
                return [leaf, *path]
        raise why


def _check_authorities(path: list[x509.Certificate], now: datetime) -> None:
    """Raises ValueError unless each may have signed those before it, and the first a certificate of a client."""
    for below, authority in enumerate(path):
        if not authority.not_valid_before_utc <= now <= authority.not_valid_after_utc:
            raise ValueError("certificate has expired or is not yet valid")
        found = {type(extension.value): extension.value for extension in authority.extensions}
        basic, uses = found.get(x509.BasicConstraints), found.get(x509.ExtendedKeyUsage)
        if not isinstance(basic, x509.BasicConstraints) or not basic.ca:
            raise ValueError("the issuer is not a certificate authority")
        if basic.path_length is not None and below > basic.path_length:
            raise ValueError("too many intermediates for path length constraint")
        usage = found.get(x509.KeyUsage)
        if isinstance(usage, x509.KeyUsage) and not usage.key_cert_sign:
            raise ValueError("the issuer may not sign certificates")
        if isinstance(uses, x509.ExtendedKeyUsage) and _CLIENT_USES.isdisjoint(uses):
            raise ValueError("the certificate is not for client authentication")


def _refusal(
    leaf: x509.Certificate, candidates: Iterable[x509.Certificate], now: datetime, error: verification.VerificationError
) -> str:
    """Why a certificate is refused, in the words of Go's ``crypto/x509``."""
    expired = "certificate has expired or is not yet valid: current time"
    if now < leaf.not_valid_before_utc:
        return f"{expired} {_shown(now)} is before {_shown(leaf.not_valid_before_utc)}"
    if now > leaf.not_valid_after_utc:
        return f"{expired} {_shown(now)} is after {_shown(leaf.not_valid_after_utc)}"
    if leaf.version is not x509.Version.v1:
        uses = next(
            (extension.value for extension in leaf.extensions if isinstance(extension.value, x509.ExtendedKeyUsage)),
            None,
        )
        if uses is not None and _CLIENT_USES.isdisjoint(uses):
            return "certificate specifies an incompatible key usage"
    unknown = "certificate signed by unknown authority"
    issuer = next((candidate for candidate in candidates if candidate.subject == leaf.issuer), None)
    if issuer is None:
        return unknown
    return (
        f"{unknown} (possibly because of {quote(str(error))} "
        f"while trying to verify candidate authority certificate {quote(common_name(issuer))})"
    )


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


class ClientCertificates:
    """Authenticates clients by certificates that one of `authorities` issued."""

    waits = False

    def __init__(self, authorities: Iterable[x509.Certificate], clock: Clock) -> None:
        self._check = CertificateCheck(authorities, clock, _identity_of)

    def authenticate_cached(self, headers: Mapping[str, str], peer: Peer) -> Identity | None:
        """See `AtOnce`."""
        if peer.certificate is None:
            return None
        known = self._check.remembered(peer.certificate)
        return UNDECIDED if known is None else known[0]

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        peer = credentials.peer
        return None if peer.certificate is None else self._check.verified(peer.certificate, peer.chain)


def common_name(leaf: x509.Certificate) -> str:
    """The common name of a certificate, the last if it has several; empty without one."""
    names = [str(a.value) for a in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return names[-1] if names else ""


def _identity_of(leaf: x509.Certificate) -> Identity | None:
    """The user in a verified certificate; None without a common name, as in Kubernetes. Raises ValueError."""
    name = common_name(leaf)
    if not name:
        return None
    groups = tuple(str(a.value) for a in leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    uids = [str(a.value) for a in leaf.subject.get_attributes_for_oid(UID)]
    if len(uids) > 1:
        raise ValueError("the subject has several UIDs")
    fingerprint = hashlib.sha256(leaf.public_bytes(Encoding.DER)).hexdigest()
    extra = {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
    return Identity(authenticated(User(name, uids[0] if uids else "", groups, extra)))
