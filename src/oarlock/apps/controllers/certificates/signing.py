"""`SigningController`: issues the certificates that were approved, as Kubernetes' own signers; `Authority` is their CA.

kube-controller-manager's certificatesigningrequest-signing-controller.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from oarlock.apps.controllers.certificates.requests import APPROVED, DENIED, FAILED, parsed_request
from oarlock.apps.kinds.certificates import (
    GROUP,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.meta.context import Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import NotFound
from oarlock.policy.authz.union import Access
from oarlock.server.serving.certificates.issuing import new_authority, pair_of, read_certificate, write_pair
from oarlock.server.serving.certificates.tls import BadCertificateFile
from oarlock.server.serving.certificates.tried_certificates import locked_directory

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY = "kubernetes.io/legacy-unknown"
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY)
NODES = "system:nodes"
NODE = "system:node:"
_BESIDE = frozenset(("digital signature", "key encipherment"))


def refusal(signer: str, request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    """Why a signer doesn't sign a request; empty if it does."""
    if signer == CLIENT:
        return _wrong_usages(usages, "client auth")
    if signer not in (KUBELET_CLIENT, KUBELET_SERVING):
        return ""
    names = names_in(request)
    if names.organizations != (NODES,):
        return f"subject organization is not {NODES}"
    if not names.common_name.startswith(NODE):
        return f"subject common name does not begin with {NODE}"
    if names.emails:
        return "emailSANs not allowed"
    if names.uris:
        return "uriSANs not allowed"
    if signer == KUBELET_CLIENT:
        if names.dns or names.ips:
            return "dnsNames and ipAddresses not allowed"
        return _wrong_usages(usages, "client auth")
    if not (names.dns or names.ips):
        return "DNS or IP subjectAltName is required"
    return _wrong_usages(usages, "server auth")


def _wrong_usages(usages: Collection[str], needed: str) -> str:
    given = set(usages)
    right = needed in given and given <= _BESIDE | {needed}
    return "" if right else f"usages did not match {sorted(_BESIDE | {needed})}"


RESOURCE = "certificatesigningrequests"
REASON = "AutoApproved"


class ApprovingController(
    Controller[CertificateSigningRequest],
    name="certificatesigningrequest-approving-controller",
    field_selector=f"spec.signerName={KUBELET_CLIENT}",
):
    """`access` is asked whether who asks may have such a certificate."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def reconcile(self, key: ObjectKey) -> None:
        asked = self.informer.get(key.name)
        if asked is None or (asked.status is not None and (asked.status.certificate or asked.status.conditions)):
            return
        try:
            request = parsed_request(asked.spec.request)
            if refusal(KUBELET_CLIENT, request, asked.spec.usages):
                return
            own = names_in(request).common_name == asked.spec.username
        except ValueError:
            return
        spec = asked.spec
        user = User(spec.username, spec.uid, tuple(spec.groups), {k: tuple(v) for k, v in spec.extra.items()})
        for which, message in (
            ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."),
            ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
        ):
            if which == "selfnodeclient" and not own:
                continue
            target = Target("create", GROUP, "*", RESOURCE, subresource=which)
            if (await self._access.decide(user, target)).allowed:
                await self._approve(key.name, message)
                return

    async def _approve(self, name: str, message: str) -> None:
        def approve(live: CertificateSigningRequest) -> None:
            status = live.status = live.status or CertificateSigningRequestStatus()
            if not any(condition.type in (APPROVED, DENIED, FAILED) for condition in status.conditions):
                approved = CertificateSigningRequestCondition(
                    type=APPROVED, status="True", reason=REASON, message=message
                )
                status.conditions = [*status.conditions, approved]

        try:
            await self.client.change(CertificateSigningRequest, name, approve, subresource="approval")
        except NotFound:
            pass  # it was taken back


class SigningController(
    Controller[CertificateSigningRequest], name="certificatesigningrequest-signing-controller", concurrency=2
):
    """`authority` is what it signs with, None if others sign; it is asked for whenever the controller begins."""

    def __init__(self, authority: Callable[[float], SigningAuthority | None]) -> None:
        self._make = authority
        self._authority: SigningAuthority | None = None
        self._clock: TimerClock

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        self._authority = self._make(clock.now())
        if self._authority is None:
            self.log.info(
                "no certificates are signed here: clients are let in by --client-ca-file, so name what signs for it by "
                "--cluster-signing-cert-file, or let another program sign"
            )
            return
        await super().run(client, clock)

    async def reconcile(self, key: ObjectKey) -> None:
        asked = self.informer.get(key.name)
        if asked is None or asked.spec.signer_name not in SIGNERS or asked.status is None or asked.status.certificate:
            return
        types = {condition.type for condition in asked.status.conditions}
        if APPROVED not in types or not types.isdisjoint((DENIED, FAILED)):
            return
        spec = asked.spec
        try:
            request = parsed_request(spec.request)
            why = refusal(spec.signer_name, request, spec.usages)
        except ValueError as error:
            why = str(error)
        if why:
            await self._fail(key.name, why)
            return
        assert self._authority is not None
        certificate = self._authority.sign(request, spec.usages, self._clock.now(), spec.expiration_seconds)

        def issue(live: CertificateSigningRequest) -> None:
            live.status = live.status or CertificateSigningRequestStatus()
            live.status.certificate = live.status.certificate or certificate

        await self._write(key.name, issue)

    async def _fail(self, name: str, why: str) -> None:
        failed = CertificateSigningRequestCondition(
            type=FAILED, status="True", reason="SignerValidationFailure", message=why
        )

        def fail(live: CertificateSigningRequest) -> None:
            live.status = live.status or CertificateSigningRequestStatus()
            live.status.conditions = [
                *(condition for condition in live.status.conditions if condition.type != FAILED),
                failed,
            ]

        await self._write(name, fail)

    async def _write(self, name: str, change: Callable[[CertificateSigningRequest], None]) -> None:
        try:
            await self.client.change(CertificateSigningRequest, name, change, subresource="status")
        except NotFound:
            pass  # it was taken back


NAME = "oarlock-signer-ca"
SKEW = timedelta(minutes=5)
"""How long before it is signed a certificate is valid, for those whose clocks are behind."""

_SIGNING = frozenset(("signing", "digital signature"))
_OF_KEYS = _SIGNING | {
    "content commitment",
    "key encipherment",
    "data encipherment",
    "key agreement",
    "cert sign",
    "crl sign",
}
_EXTENDED = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "ipsec end system": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "microsoft sgc": x509.ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": x509.ObjectIdentifier("2.16.840.1.113730.4.1"),
}


class BadAuthority(Exception):
    """The files have no certificate and key that can sign; the message names them."""


@dataclass(frozen=True, slots=True)
class SignedNames:
    """What a request wants to be called."""

    common_name: str
    organizations: tuple[str, ...]
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


class SigningAuthority:
    """Signs with `certificate` and `key`, for at most `longest`."""

    def __init__(
        self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, longest: timedelta
    ) -> None:
        self._certificate = certificate
        self._key = key
        self._longest = longest

    @classmethod
    def read(cls, certificate: Path, key: Path, longest: timedelta) -> SigningAuthority:
        """The authority in two files of PEM. Raises BadAuthority."""
        try:
            made = x509.load_pem_x509_certificate(certificate.read_bytes())
            signing = load_pem_private_key(key.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise BadAuthority(f"{certificate}, {key}: no certificate and key to sign with: {error}") from None
        if not isinstance(signing, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise BadAuthority(f"{key}: this kind of key can't sign certificates here: use RSA or ECDSA")
        if made.public_key() != signing.public_key():
            raise BadAuthority(f"{key}: it is not the key of the certificate in {certificate}")
        return cls(made, signing, longest)

    @classmethod
    def made(cls, now: float, longest: timedelta) -> SigningAuthority:
        """A new authority, which lives as long as the process."""
        made = new_authority(datetime.fromtimestamp(int(now), UTC), NAME)
        return cls(made.certificate, made.key, longest)

    @classmethod
    def kept(cls, directory: Path, now: float, longest: timedelta) -> SigningAuthority:
        """The authority that is kept in a directory; it is made there if there is none, once for all who start at once.

        Raises BadAuthority.
        """
        file, key = cls.kept_at(directory), directory / "signer-ca.key"
        try:
            with locked_directory(directory):
                certificate = read_certificate(file)
                if certificate is None:
                    pair = new_authority(datetime.fromtimestamp(int(now), UTC), NAME)
                    write_pair(file, key, pair)
                else:
                    pair = pair_of(certificate, file, key)
        except (BadCertificateFile, OSError) as error:
            raise BadAuthority(f"{directory}: the CA that signs on request can't be kept there: {error}") from None
        return cls(pair.certificate, pair.key, longest)

    @staticmethod
    def kept_at(directory: Path) -> Path:
        """The file of the certificate that `kept` keeps."""
        return directory / "signer-ca.crt"

    @property
    def pem(self) -> bytes:
        """The certificate of the authority."""
        return self._certificate.public_bytes(Encoding.PEM)

    def sign(
        self, request: x509.CertificateSigningRequest, usages: Collection[str], now: float, seconds: int | None
    ) -> bytes:
        """A certificate in PEM for what is asked for, until `seconds` from now or as long as certificates last here."""
        moment = datetime.fromtimestamp(int(now), UTC)
        asked = self._longest if seconds is None else min(timedelta(seconds=seconds), self._longest)
        ends = min(moment + asked, self._certificate.not_valid_after_utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(self._certificate.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(moment - SKEW)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        usage = _key_usage(usages)
        if usage is not None:
            builder = builder.add_extension(usage, critical=True)
        extended = [_EXTENDED[usage] for usage in usages if usage in _EXTENDED]
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage([*dict.fromkeys(extended)]), critical=False)
        try:
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            builder = builder.add_extension(names.value, critical=names.critical)
        except x509.ExtensionNotFound:
            pass
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def names_in(request: x509.CertificateSigningRequest) -> SignedNames:
    """What `request` wants to be called. Raises ValueError for extensions that can't be read."""
    subject = request.subject
    common = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    organizations = tuple(
        str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    )
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return SignedNames(common[0] if common else "", organizations)
    addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address] = names.get_values_for_type(x509.IPAddress)  # type: ignore[assignment]
    return SignedNames(
        common[0] if common else "",
        organizations,
        tuple(names.get_values_for_type(x509.DNSName)),
        tuple(map(str, addresses)),
        tuple(names.get_values_for_type(x509.RFC822Name)),
        tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
    )


def _key_usage(usages: Collection[str]) -> x509.KeyUsage | None:
    """None where no usage is one of the key: what is empty is refused by OpenSSL, and left out by Go."""
    if _OF_KEYS.isdisjoint(usages):
        return None
    agreement = "key agreement" in usages
    return x509.KeyUsage(
        digital_signature=not _SIGNING.isdisjoint(usages),
        content_commitment="content commitment" in usages,
        key_encipherment="key encipherment" in usages,
        data_encipherment="data encipherment" in usages,
        key_agreement=agreement,
        key_cert_sign="cert sign" in usages,
        crl_sign="crl sign" in usages,
        encipher_only=agreement and "encipher only" in usages,
        decipher_only=agreement and "decipher only" in usages,
    )
