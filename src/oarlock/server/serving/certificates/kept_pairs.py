"""Certificates and their keys in the files of a directory: how they are read and written.

Keys are readable by their owner only. Must not know: what they are for. See also: `made_certificates`,
`front_proxy_files`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from oarlock.server.files.written import write_file
from oarlock.server.serving.certificates.issuing import CertificatePair
from oarlock.server.serving.certificates.tls import BadCertificateFile

__all__ = ["pair_of", "read_bundle", "read_certificate", "write_pair"]


def write_pair(
    certificate_file: Path, key_file: Path, pair: CertificatePair, others: Sequence[x509.Certificate] = ()
) -> None:
    """Write both files; the certificate's has `others` after it.

    The old certificate is removed first: a crash must not leave a certificate with another one's key.
    """
    certificate_file.unlink(missing_ok=True)
    write_file(key_file, pair.key_pem, 0o600)
    texts = (pair.certificate_pem, *(other.public_bytes(Encoding.PEM) for other in others))
    write_file(certificate_file, b"".join(texts), 0o644)


def pair_of(certificate: x509.Certificate, certificate_file: Path, key_file: Path) -> CertificatePair:
    """The certificate of a file with the key in another one. Raises `BadCertificateFile`."""
    key = _read_key(key_file)
    if certificate.public_key() != key.public_key():
        what = f"it is not the key of the certificate in {certificate_file}"
        raise BadCertificateFile(f"{key_file}: {what}; remove both files, and new ones are made")
    return CertificatePair(certificate, key)


def read_certificate(file: Path) -> x509.Certificate | None:
    """The first certificate in `file`; None if there is no such file. Raises `BadCertificateFile`."""
    return next(iter(read_bundle(file)), None)


def read_bundle(file: Path) -> list[x509.Certificate]:
    """The certificates in `file`; none if there is no such file. Raises `BadCertificateFile`."""
    try:
        return x509.load_pem_x509_certificates(file.read_bytes())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadCertificateFile(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise BadCertificateFile(f"{file}: it holds no certificate in PEM form") from error


def _read_key(file: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except OSError as error:
        raise BadCertificateFile(f"{file}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise BadCertificateFile(f"{file}: it holds no unencrypted private key in PEM form") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCertificateFile(f"{file}: it holds no elliptic-curve key")
    return key
