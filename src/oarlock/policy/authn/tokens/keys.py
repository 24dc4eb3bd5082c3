"""Keys of tokens: read from PEM, published as a JSON Web Key Set (RFC 7517).

A key's id is that of Kubernetes: the SHA-256 digest of the public key, so that every server says the same.
Must not know: files. See also: `jwt`, which verifies with them; `token_issuer`, which signs.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from oarlock.meta.dataclass import dataclass
from oarlock.policy.authn.bad_files import KeyFileError
from oarlock.policy.authn.tokens.jwt import PublicKey, VerificationKey, algorithms_of

__all__ = [
    "SMALLEST_RSA_BITS",
    "SigningKey",
    "distinct",
    "key_set",
    "load_signing_key",
    "load_verification_keys",
]

SMALLEST_RSA_BITS = 2048
_block = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key that signs tokens with `algorithm`, and its public half."""

    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    public: VerificationKey
    algorithm: str


def load_verification_keys(pem: bytes, name: str) -> list[VerificationKey]:
    """The public keys in a file, also of private keys and certificates; `name` is the file's. Raises `KeyFileError`."""
    keys = [_public(block.group(0), block.group(1).decode(), name) for block in _block.finditer(pem)]
    if not keys:
        raise KeyFileError(f"{name}: it holds no key in PEM")
    return keys


def _public(block: bytes, kind: str, name: str) -> VerificationKey:
    try:
        if kind == "CERTIFICATE":
            key: Any = x509.load_pem_x509_certificate(block).public_key()
        elif "PRIVATE" in kind:
            key = load_pem_private_key(block, None).public_key()
        else:
            key = load_pem_public_key(block)
    except (ValueError, TypeError) as error:
        raise KeyFileError(f"{name}: a {kind.lower()} in it can't be read") from error
    return _verification_key(key, name)


def _verification_key(key: Any, name: str) -> VerificationKey:
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < SMALLEST_RSA_BITS:
        raise KeyFileError(f"{name}: an RSA key of {key.key_size} bits; give one of {SMALLEST_RSA_BITS} or more")
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey) or not algorithms_of(key):
        raise KeyFileError(f"{name}: it holds a key that tokens can't be signed with; give one of RSA, P-256 or P-384")
    return VerificationKey(key, _key_id(key), algorithms_of(key))


def load_signing_key(pem: bytes, name: str) -> SigningKey:
    """The private key in a file, which `name` names. Raises `KeyFileError`."""
    try:
        key = load_pem_private_key(pem, None)
    except TypeError as error:
        raise KeyFileError(f"{name}: it is encrypted: give a key without a password") from error
    except ValueError as error:
        raise KeyFileError(f"{name}: it holds no private key in PEM") from error
    public = _verification_key(key.public_key(), name)
    assert isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
    return SigningKey(key, public, public.algorithms[0])


def _key_id(key: PublicKey) -> str:
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()


def key_set(keys: Iterable[VerificationKey]) -> dict[str, Any]:
    """The keys as clients of an issuer read them."""
    return {"keys": [_published(key) for key in keys]}


def _published(key: VerificationKey) -> dict[str, Any]:
    head = {"use": "sig", "kty": "RSA", "kid": key.key_id, "alg": key.algorithms[0]}
    if isinstance(key.key, rsa.RSAPublicKey):
        numbers = key.key.public_numbers()
        return {**head, "n": _number(numbers.n), "e": _number(numbers.e)}
    point, size = key.key.public_numbers(), (key.key.key_size + 7) // 8
    curve = {256: "P-256", 384: "P-384", 521: "P-521"}[key.key.key_size]
    return {**head, "kty": "EC", "crv": curve, "x": _number(point.x, size), "y": _number(point.y, size)}


def _number(value: int, size: int = 0) -> str:
    data = value.to_bytes(size or (value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def distinct(keys: Iterable[VerificationKey]) -> Sequence[VerificationKey]:
    """Each key once, in order."""
    return tuple({key.key_id: key for key in keys}.values())
