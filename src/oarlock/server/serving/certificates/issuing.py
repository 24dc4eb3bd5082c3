"""Makes authorities, and certificates for servers and for clients, in memory.

Keys are of the curve P-256. Must not know: where they are kept. See also: `certs`, which keeps them in files.
Source: RFC 5280.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from oarlock.meta.dataclass import dataclass

__all__ = ["CertificatePair", "alternative_names", "issue", "issue_client", "new_authority"]

CA_DAYS = 3650
SERVING_DAYS = 365
CLIENT_DAYS = 365


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def new_authority(moment: datetime, name: str = "oarlock-ca") -> CertificatePair:
    """An authority of its own, for ten years; it is called `name` and the time."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name}@{int(moment.timestamp())}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - timedelta(hours=1))
        .not_valid_after(moment + timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return CertificatePair(certificate, key)


def issue(
    authority: CertificatePair, hosts: Sequence[str], moment: datetime, days: int = SERVING_DAYS
) -> CertificatePair:
    """A serving certificate for `hosts`, DNS names and addresses. It ends with its authority at the latest."""
    names = x509.SubjectAlternativeName(alternative_names(hosts))
    return _issued(authority, "oarlock-apiserver", (_purpose(ExtendedKeyUsageOID.SERVER_AUTH), names), moment, days)


def issue_client(authority: CertificatePair, name: str, moment: datetime, days: int = CLIENT_DAYS) -> CertificatePair:
    """A client's certificate with the common name `name`. It ends with its authority at the latest."""
    return _issued(authority, name, (_purpose(ExtendedKeyUsageOID.CLIENT_AUTH),), moment, days)


def _issued(
    authority: CertificatePair, name: str, extensions: Sequence[x509.ExtensionType], moment: datetime, days: int
) -> CertificatePair:
    key = ec.generate_private_key(ec.SECP256R1())
    signer = authority.certificate
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(signer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - timedelta(hours=1))
        .not_valid_after(min(moment + timedelta(days=days), signer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return CertificatePair(builder.sign(authority.key, hashes.SHA256()), key)


def _purpose(usage: x509.ObjectIdentifier) -> x509.ExtendedKeyUsage:
    return x509.ExtendedKeyUsage([usage])


def alternative_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """DNS names and addresses as a certificate has them."""
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
