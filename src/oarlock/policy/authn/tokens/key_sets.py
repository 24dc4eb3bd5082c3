"""A JSON Web Key Set of somebody else, read: its public keys that tokens may be signed with (RFC 7517, RFC 7518 §6).

What isn't one is left out: keys for encryption, shared secrets, RSA keys that are too short, unknown curves.
See also: `keys`, which writes ours; `issuer_keys`, which fetches.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from oarlock.policy.authn.tokens.jwt import PublicKey, VerificationKey, algorithms_of
from oarlock.policy.authn.tokens.keys import SMALLEST_RSA_BITS

__all__ = ["keys_in_set"]

MOST_KEYS = 32
LARGEST_RSA_BITS = 16384
_CURVES: dict[str, ec.EllipticCurve] = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}


def keys_in_set(tree: Mapping[str, Any]) -> tuple[VerificationKey, ...]:
    """The keys, `MOST_KEYS` at most: a token that names none is tried with each."""
    listed = tree.get("keys")
    read = (
        _key(key_tree)
        for key_tree in (listed if isinstance(listed, list) else [])[:MOST_KEYS]
        if isinstance(key_tree, dict)
    )
    return tuple(key for key in read if key is not None)


def _key(tree: Mapping[str, Any]) -> VerificationKey | None:
    key_id, use = tree.get("kid", ""), tree.get("use", "sig")
    if not isinstance(key_id, str) or use != "sig":
        return None
    try:
        key = _public(tree)
    except (ValueError, TypeError, binascii.Error):
        return None
    algorithms = () if key is None else algorithms_of(key)
    if "alg" in tree:  # a key that is for one algorithm verifies no other
        algorithms = tuple(algorithm for algorithm in algorithms if algorithm == tree["alg"])
    return VerificationKey(key, key_id, algorithms) if key is not None and algorithms else None


def _public(tree: Mapping[str, Any]) -> PublicKey | None:
    """The key; None for one of another kind. Raises ValueError, TypeError."""
    if tree.get("kty") == "RSA":
        modulus, exponent = _number(tree["n"]) if "n" in tree else 0, _number(tree.get("e", ""))
        if not SMALLEST_RSA_BITS <= modulus.bit_length() <= LARGEST_RSA_BITS:
            return None
        return rsa.RSAPublicNumbers(exponent, modulus).public_key()
    curve = _CURVES.get(str(tree.get("crv"))) if tree.get("kty") == "EC" else None
    if curve is None:
        return None
    return ec.EllipticCurvePublicNumbers(_number(tree.get("x")), _number(tree.get("y")), curve).public_key()


def _number(encoded: Any) -> int:
    """Raises ValueError, TypeError."""
    return int.from_bytes(base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True), "big")
