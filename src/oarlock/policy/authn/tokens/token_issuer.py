"""`TokenIssuer`: signs tokens of service accounts, and publishes the keys to verify them with.

Must not know: requests. See also: `service_accounts`, which verifies them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from oarlock.meta.context import Clock
from oarlock.policy.authn.tokens.jwt import VerificationKey
from oarlock.policy.authn.tokens.keys import SigningKey, key_set
from oarlock.policy.authn.tokens.service_accounts import LEGACY, LEGACY_ISSUER, BoundObject, TokenBinding

__all__ = ["TokenIssuer"]


class TokenIssuer:
    """Issues tokens as `issuer`. `keys` verify them; the key that signs is the first.

    `longest_s` is the longest time that a token is issued for; 0 for as long as Kubernetes allows.
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
