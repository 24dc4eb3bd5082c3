"""An issuer of tokens elsewhere, without a network: its documents are in a dict, and it signs what it is told to."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from oarlock.policy.authn.tokens.bearer_tokens import BearerTokens
from oarlock.policy.authn.tokens.issued_tokens import ClaimMapping, ClaimRules, IssuedTokens, TokenIssuerRules
from oarlock.policy.authn.tokens.issuer_keys import DISCOVERY_PATH, Document, IssuerKeys, IssuerPlace
from oarlock.testing.clock import VirtualClock

__all__ = ["URL", "Believed", "ForeignIssuer", "ForeignKey", "encoded"]

URL = "https://login.example.com"
NAMED_SUB = ClaimRules(username=ClaimMapping("sub"))


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class ForeignKey:
    """A key of an issuer, published as `jwk`."""

    def __init__(self, key_id: str = "k1", *, curve: ec.EllipticCurve | None = None, bits: int = 2048) -> None:
        self.key_id = key_id
        self.private: Any = rsa.generate_private_key(65537, bits) if curve is None else ec.generate_private_key(curve)
        self.algorithm = "RS256" if curve is None else {256: "ES256", 384: "ES384", 521: "ES512"}[curve.key_size]
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        self.jwk: dict[str, Any] = {**json.loads(algorithm.to_jwk(self.private.public_key())), "kid": key_id}

    def signed(self, claims: Mapping[str, Any], *, algorithm: str = "", **header: Any) -> str:
        headers = {"kid": self.key_id, **header}
        return jwt.PyJWS().encode(json.dumps(claims).encode(), self.private, algorithm or self.algorithm, headers)


class ForeignIssuer:
    """The documents of an issuer; implements `DocumentReader`. Reads wait while `may_answer` is unset."""

    def __init__(self, *keys: ForeignKey, url: str = URL) -> None:
        self.url = url
        self.reads: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.fresh_s: float | None = None
        self.documents: dict[str, Any] = {
            f"{url.rstrip('/')}{DISCOVERY_PATH}": {"issuer": url, "jwks_uri": f"{url}/keys"}
        }
        self.publish(*keys)

    def publish(self, *keys: ForeignKey) -> None:
        self.documents[f"{self.url}/keys"] = {"keys": [one.jwk for one in keys]}

    async def read(self, url: str) -> Document:
        self.reads.append(url)
        await self.may_answer.wait()
        found = self.documents.get(url)
        if isinstance(found, Exception):
            raise found
        if found is None:
            raise ConnectionError(f"{url}: answered with 404")
        return Document(found if isinstance(found, bytes) else json.dumps(found).encode(), self.fresh_s)


class Believed:
    """A server that accepts tokens of `issuer` for the audience ``app``."""

    def __init__(
        self,
        issuer: ForeignIssuer,
        claims: ClaimRules = NAMED_SUB,
        *,
        audiences: Sequence[str] = ("app",),
        algorithms: Sequence[str] = (),
        own: Sequence[str] = (),
    ) -> None:
        self.clock = VirtualClock()
        self.issuer = issuer
        self.keys = IssuerKeys(IssuerPlace(issuer.url), issuer, self.clock)
        chosen = {"algorithms": tuple(algorithms)} if algorithms else {}
        self.rules = TokenIssuerRules(self.keys.place, tuple(audiences), claims, **chosen)
        self.tokens = IssuedTokens([(self.rules, self.keys)], own, self.clock)
        self.bearer = BearerTokens([self.tokens], self.clock, own)

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Claims of a token that is good for an hour; None leaves one out."""
        now = int(self.clock.now())
        claims = {"iss": self.issuer.url, "sub": "ann", "aud": "app", "exp": now + 3600, "iat": now, **changed}
        return {name: value for name, value in claims.items() if value is not None}
