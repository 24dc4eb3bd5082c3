"""`TokenIssuer`: signs tokens of service accounts with keys of files, and publishes those to verify them with.

Must not know: requests. See also: `service_accounts`, which verifies them.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.policy.authn.authenticator import KeyFileError
from oarlock.policy.authn.tokens.jwt import PublicKey, VerificationKey, algorithms_of
from oarlock.policy.authn.tokens.service_accounts import LEGACY, LEGACY_ISSUER, BoundObject, TokenBinding

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
        raise KeyFileError(f"{name}: it contains no key in PEM")
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
        raise KeyFileError(f"{name}: it contains no private key in PEM") from error
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


class TokenIssuer:
    """Issues tokens as `issuer`. `keys` verify them; the first key signs.

    `longest_s` is the maximal lifetime of a token, in seconds; 0 is Kubernetes' maximum.
    """

    def __init__(
        self,
        issuer: str,
        signing_key: Callable[[], SigningKey],
        keys: Callable[[], Sequence[VerificationKey]],
        audiences: Sequence[str],
        clock: Clock,
        longest_s: float = 0.0,
    ) -> None:
        self.issuer = issuer
        self.audiences = tuple(audiences)
        self.longest_s = longest_s
        self._signing_key = signing_key
        self._keys = keys
        self._clock = clock

    def issue(self, binding: TokenBinding, audiences: Sequence[str], seconds: float) -> tuple[str, float]:
        """A token for an account, and when it expires, in seconds since the epoch."""
        now = int(self._clock.now())
        expires = now + int(seconds)
        account = binding.account
        bound = {
            bound_object.resource.removesuffix("s"): {"name": bound_object.name, "uid": bound_object.uid}
            for bound_object in binding.objects
        }
        if binding.node is not None:
            bound["node"] = {"name": binding.node[0], "uid": binding.node[1]}
        claims = {
            "aud": list(audiences),
            "exp": expires,
            "iat": now,
            "iss": self.issuer,
            "jti": binding.token_id or str(uuid.uuid4()),
            "kubernetes.io": {"namespace": account.namespace, **dict(sorted(bound.items()))},
            "nbf": now,
            "sub": _subject(account),
        }
        return self._signed(claims), float(expires)

    def issue_for_secret(self, account: BoundObject, secret: str) -> str:
        """The token that a secret of the type ``kubernetes.io/service-account-token`` holds, for as long as it does."""
        return self._signed(
            {
                "iss": LEGACY_ISSUER,
                LEGACY + "namespace": account.namespace,
                LEGACY + "secret.name": secret,
                LEGACY + "service-account.name": account.name,
                LEGACY + "service-account.uid": account.uid,
                "sub": _subject(account),
            }
        )

    def published_keys(self) -> bytes:
        """The JSON Web Key Set of the issuer."""
        return msgspec.json.encode(key_set(self._keys()))

    def discovery(self, keys_url: str) -> bytes:
        """The OpenID Connect discovery document."""
        algorithms = sorted({key.algorithms[0] for key in self._keys()})
        return msgspec.json.encode(
            {
                "issuer": self.issuer,
                "jwks_uri": keys_url,
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": algorithms,
            }
        )

    def _signed(self, claims: dict[str, Any]) -> str:
        import jwt  # noqa: PLC0415 (takes 60 ms, and most servers issue no tokens)

        key = self._signing_key()
        token: str = jwt.PyJWS().encode(
            msgspec.json.encode(claims), key.key, key.algorithm, headers={"kid": key.public.key_id, "typ": None}
        )
        return token


def _subject(account: BoundObject) -> str:
    return f"system:serviceaccount:{account.namespace}:{account.name}"
