"""What is wrong with a certificate and its key, which OpenSSL refuses without saying which of the files is at fault."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

__all__ = ["pair_problem"]


def pair_problem(chain: bytes, secret: bytes, certificate: Path, key: Path) -> str:
    """What is wrong with the certificates `chain` and the key `secret` of these files; empty if it isn't found."""
    try:
        leaf = x509.load_pem_x509_certificates(chain)[0]
    except ValueError:
        return f"{certificate}: it contains no certificate in PEM"
    try:
        private = load_pem_private_key(secret, None)
    except TypeError:
        return f"{key}: it is encrypted: use a key without a password"
    except ValueError:
        return f"{key}: it contains no private key in PEM"
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if private.public_key().public_bytes(*form) != leaf.public_key().public_bytes(*form):
        return f"{key}: it is not the key of the certificate in {certificate}"
    return ""
