"""Signed tokens (JWT, RFC 7519): taken apart, and verified with public keys of known algorithms.

A token names its algorithm and key itself, so neither is believed: a key verifies the algorithms that fit its kind,
never ``none`` and never a shared secret. PyJWT verifies signatures; it is imported with the first token.
Must not know: who issues tokens, what claims mean. See also: `keys`, `service_accounts`, `oidc`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from oarlock.meta.dataclass import dataclass

MOST_BYTES = 32 * 1024
"""The longest token that is looked at."""

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}


@dataclass(frozen=True, slots=True)
class JWT:
    """A token, taken apart. Nothing of it may be believed before `signed_by` says so."""

    text: str
    algorithm: str
    key_id: str
    claims: Mapping[str, Any]

    def claim(self, name: str) -> str:
        """A claim that is a text; empty if there is none."""
        value = self.claims.get(name)
        return value if isinstance(value, str) else ""

    @property
    def audiences(self) -> tuple[str, ...]:
        value = self.claims.get("aud")
        if isinstance(value, str):
            return (value,)
        return tuple(audience for audience in value if isinstance(audience, str)) if isinstance(value, list) else ()

    def time(self, name: str) -> float | None:
        """A claim that is a time in seconds since the epoch. Raises ValueError for anything else."""
        value = self.claims.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
            raise ValueError(f"the claim {name} is no time")
        return float(value)


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key, its id, and the algorithms it verifies."""

    key: PublicKey
    key_id: str
    algorithms: tuple[str, ...]

    def has_signed(self, token: JWT) -> bool:
        """Whether the signature of the token was made with this key's private half."""
        if token.algorithm not in self.algorithms:
            return False
        signed, _, signature = token.text.rpartition(".")
        data = _decoded(signature)
        return data is not None and bool(_algorithm(token.algorithm).verify(signed.encode(), self.key, data))


@cache
def _algorithm(name: str) -> Any:
    """PyJWT's verification of one algorithm."""
    import jwt  # noqa: PLC0415 (takes 60 ms, and most servers never see such a token)

    return jwt.get_algorithm_by_name(name)


def algorithms_of(key: PublicKey) -> tuple[str, ...]:
    """The algorithms whose signatures a key may verify; none for a curve that tokens don't use."""
    return _RSA if isinstance(key, rsa.RSAPublicKey) else _CURVES.get(key.curve.name, ())


def parse_jwt(text: str) -> JWT | None:
    """The token, taken apart; None if it isn't one."""
    if text.count(".") != 2 or len(text) > MOST_BYTES:
        return None
    head, payload, _ = text.split(".")
    header, claims = _object(head), _object(payload)
    if header is None or claims is None or not isinstance(header.get("alg"), str) or "crit" in header:
        return None  # what is critical and unknown must be refused (RFC 7515 §4.1.11), and nothing of it is known
    key_id = header.get("kid", "")
    return JWT(text, header["alg"], key_id if isinstance(key_id, str) else "", claims)


def _object(encoded: str) -> dict[str, Any] | None:
    """A segment of a token: an object in JSON."""
    data = _decoded(encoded)
    try:
        tree = None if data is None else msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _decoded(encoded: str) -> bytes | None:
    """Base64 without padding; None if it isn't. With padding, one token could be spelled in many ways."""
    if "=" in encoded:
        return None
    try:
        return base64.b64decode(encoded.encode("ascii") + b"=" * (-len(encoded) % 4), b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None


def signer_of(token: JWT, keys: Iterable[VerificationKey]) -> VerificationKey | None:
    """The key that has signed the token: of those with the id it names, if there are any, else of all."""
    keys = tuple(keys)
    named = [key for key in keys if key.key_id == token.key_id] if token.key_id else []
    return next((key for key in named or keys if key.has_signed(token)), None)
