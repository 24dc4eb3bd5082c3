"""`ClaimRules`: which tokens of an issuer are let in, and what user their claims make.

Must not know: signatures, keys. See also: `claim_expressions`; `issued_tokens`, which asks.
Source: k8s.io/apiserver ``plugin/pkg/authenticator/token/oidc``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from oarlock.meta.context import User
from oarlock.meta.dataclass import dataclass
from oarlock.policy.authn.authenticator import BadCredentials

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
EMAIL, EMAIL_VERIFIED = "email", "email_verified"

TokenClaims = Mapping[str, Any]


class ExpressionFailed(Exception):
    """An expression can't be evaluated, or has another result than it must."""


class TokenExpression(Protocol):
    """An expression about claims, or about the user they make. Each method raises `ExpressionFailed`.

    `claims` are the claims that it reads by name.
    """

    source: str
    claims: frozenset[str]

    def text(self, claims: TokenClaims) -> str:
        """The result, which must be a text."""
        ...

    def texts(self, claims: TokenClaims) -> tuple[str, ...]:
        """The result: a text, a list of texts, or null; empty ones are left out."""
        ...

    def holds(self, about: TokenClaims | User) -> bool:
        """Whether the condition holds."""
        ...


@dataclass(frozen=True, slots=True)
class ClaimMapping:
    """Where a part of the user comes from: `claim` with `prefix` before each value, or `expression`."""

    claim: str = ""
    prefix: str = ""
    expression: TokenExpression | None = None


@dataclass(frozen=True, slots=True)
class ExtraMapping:
    """The values of one key of the user's `extra`."""

    key: str
    expression: TokenExpression


@dataclass(frozen=True, slots=True)
class ClaimCondition:
    """What must hold of the claims, or of the user. `message` says why, when it doesn't."""

    expression: TokenExpression
    message: str = ""


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """How the claims of a verified token become a user. `required` claims must have exactly these values."""

    username: ClaimMapping
    groups: ClaimMapping = ClaimMapping()
    uid: ClaimMapping = ClaimMapping()
    extra: Sequence[ExtraMapping] = ()
    required: Mapping[str, str] | None = None
    conditions: Sequence[ClaimCondition] = ()
    user_conditions: Sequence[ClaimCondition] = ()

    def user(self, claims: TokenClaims) -> User:
        """The user that the claims are about. Raises `BadCredentials`, whose text has no claim's value."""
        try:
            user = self._mapped(claims)
            _must_hold(self.conditions, claims)
            _must_hold(self.user_conditions, user)
        except ExpressionFailed as error:
            raise BadCredentials(f"an expression about the token can't be evaluated: {error}") from None
        return user

    def _mapped(self, claims: TokenClaims) -> User:
        name = self._username(claims)
        if not name:
            raise BadCredentials("the token names no user")
        extra: dict[str, tuple[str, ...]] = {}
        token_id = claims.get("jti")
        if isinstance(token_id, str) and token_id:
            extra[CREDENTIAL_ID] = (f"JTI={token_id}",)
        for mapping in self.extra:
            if found := mapping.expression.texts(claims):
                extra[mapping.key] = found
        user = User(name, self._uid(claims), self._groups(claims), extra)
        for claim, wanted in (self.required or {}).items():
            if claim not in claims:
                raise BadCredentials(f"the token has no claim {claim}, which is required")
            if claims[claim] != wanted:
                raise BadCredentials(f"the claim {claim} of the token has another value than is required")
        return user

    def _username(self, claims: TokenClaims) -> str:
        mapping = self.username
        if mapping.expression is not None:
            return mapping.expression.text(claims)
        name = _text(claims, mapping.claim)
        if mapping.claim == EMAIL and claims.get(EMAIL_VERIFIED, True) is not True:
            raise BadCredentials("the token's email isn't verified")
        return mapping.prefix + name if name else ""

    def _groups(self, claims: TokenClaims) -> tuple[str, ...]:
        mapping = self.groups
        if mapping.expression is not None:
            return mapping.expression.texts(claims)
        groups = claims.get(mapping.claim) if mapping.claim else None
        if groups is None:
            return ()
        groups = [groups] if isinstance(groups, str) else groups
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise BadCredentials(f"the claim {mapping.claim} of the token is no text and no list of texts")
        return tuple(mapping.prefix + group for group in groups)

    def _uid(self, claims: TokenClaims) -> str:
        if self.uid.expression is not None:
            return self.uid.expression.text(claims)
        return _text(claims, self.uid.claim) if self.uid.claim else ""


def _text(claims: TokenClaims, name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str):
        raise BadCredentials(f"the claim {name} of the token is {'missing' if value is None else 'no text'}")
    return value


def _must_hold(conditions: Sequence[ClaimCondition], about: TokenClaims | User) -> None:
    for condition in conditions:
        if not condition.expression.holds(about):
            why = f": {condition.message}" if condition.message else ""
            raise BadCredentials(f"validation expression '{condition.expression.source}' failed{why}")
