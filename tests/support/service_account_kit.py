"""Tokens of service accounts without a server: the accounts and what tokens are bound to are in a dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from oarlock.policy.authn.tokens.bearer_tokens import BearerTokens
from oarlock.policy.authn.tokens.service_accounts import BoundObject, ServiceAccountTokens, TokenBinding
from oarlock.policy.authn.tokens.token_issuer import SigningKey, TokenIssuer, load_signing_key
from oarlock.testing.clock import VirtualClock

__all__ = ["ISSUER", "Accounts", "ObjectsInADict", "binding", "pem_of", "signing_key"]

ISSUER = "https://kubernetes.default.svc"


def pem_of(key: Any) -> bytes:
    """A private key in PEM."""
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem


def signing_key(*, curve: ec.EllipticCurve | None = None, bits: int = 2048) -> SigningKey:
    """A new key."""
    made = rsa.generate_private_key(65537, bits) if curve is None else ec.generate_private_key(curve)
    return load_signing_key(pem_of(made), "sa.key")


class ObjectsInADict:
    """Implements `StoredObjects`. `later` are objects that another server has stored, seen once this one is fresh."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], tuple[int, Mapping[str, Any]]] = {}
        self.later: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        self.looks = 0
        self._revision = 0

    def put(self, resource: str, namespace: str, name: str, uid: str = "", **fields: Any) -> None:
        metadata = {"name": name, "uid": uid or f"{name}-uid", **fields.pop("metadata", {})}
        self._revision += 1
        self.objects[resource, namespace, name] = self._revision, {"metadata": metadata, **fields}

    def revision(self, resource: str, namespace: str, name: str) -> int:
        return self.objects.get((resource, namespace, name), (0, None))[0]

    def read(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.objects.get((resource, namespace, name), (0, None))[1]

    async def fresh(self) -> None:
        self.looks += 1
        for key, tree in self.later.items():
            self.put(*key, uid=tree["metadata"]["uid"])
        self.later.clear()


class Accounts:
    """An issuer and the authenticator that believes it, with the account ``shop/robot``."""

    def __init__(self, key: SigningKey, *, audiences: tuple[str, ...] = (ISSUER,)) -> None:
        self.clock = VirtualClock()
        self.objects = ObjectsInADict()
        self.objects.put("serviceaccounts", "shop", "robot")
        self.keys = [key.public]
        self.issuer = TokenIssuer(ISSUER, lambda: key, lambda: self.keys, audiences, self.clock)
        self.tokens = ServiceAccountTokens([ISSUER], lambda: self.keys, audiences, self.objects, self.clock)
        self.bearer = BearerTokens([self.tokens], self.clock, audiences)

    def token(self, *bound: BoundObject, audiences: tuple[str, ...] = (ISSUER,), seconds: float = 3600) -> str:
        return self.issuer.issue(binding(*bound), audiences, seconds)[0]


def binding(*bound: BoundObject, node: tuple[str, str] | None = None) -> TokenBinding:
    """What a token of ``shop/robot`` is bound to."""
    return TokenBinding((BoundObject("serviceaccounts", "shop", "robot", "robot-uid"), *bound), node=node)
