"""`IssuedTokens`: tokens that issuers elsewhere have signed (OpenID Connect ID tokens, and others in JWT).

`ClaimRules` say which of them are let in, and what user their claims make. An issuer is asked for its keys, never
about a token. Who has none yet, or can't be reached, lets nobody new in.
Must not know: HTTP, files. See also: `issuer_keys`. Source: k8s.io/apiserver
``plugin/pkg/authenticator/token/oidc``; OpenID Connect Core §3.1.3.7.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, Protocol

from oarlock.meta.context import Clock, User
from oarlock.meta.dataclass import dataclass
from oarlock.policy.authn.authenticator import DEADLINE_S, BadCredentials, Identity
from oarlock.policy.authn.tokens.bearer_tokens import TokenAnswer
from oarlock.policy.authn.tokens.issuer_keys import IssuerKeys, IssuerPlace, fitting
from oarlock.policy.authn.tokens.jwt import JWT, parse_jwt
from oarlock.registry.workers import ensure_task
from oarlock.schema.cel import types
from oarlock.schema.cel.declared import USER, declare, unescape
from oarlock.schema.cel.expression import CONDITION_BUDGET, DeclaredVariable, check_text
from oarlock.schema.cel.problems import CelError
from oarlock.schema.cel.syntax.ast import Call, Const, Expr, Ident, Select
from oarlock.schema.cel.values import as_double

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


_USER = declare(USER, path="user")
_VARIABLES = {
    "claims": {"claims": DeclaredVariable(types.map_of(types.STRING, types.DYN))},
    "user": {"user": DeclaredVariable(_USER.type, _USER)} if _USER is not None else {},
}


class ClaimExpression:
    """Implements `TokenExpression`: a compiled expression about `variable`.

    With `condition` it must be of the type bool. Raises CompileError for one that isn't valid, ValueError for one that
    is no condition.
    """

    def __init__(self, source: str, *, variable: Literal["claims", "user"] = "claims", condition: bool = False) -> None:
        self.source = source
        checked = check_text(source, _VARIABLES[variable])
        if condition and checked.type != types.BOOL:
            raise ValueError("must evaluate to bool")
        nodes = list(_nodes(checked.tree))
        self.claims = frozenset(name for node in nodes if (name := _claim_read(node)))
        """The claims that it reads by name."""
        for node in nodes:
            _mean_the_field(node)
        self._program = checked.program()

    def value(self, about: Mapping[str, Any] | User) -> Any:
        """The result for these claims, or this user. Raises `ExpressionFailed`."""
        try:
            known = _user(about) if isinstance(about, User) else _claims(about)
            return self._program.run((known,), CONDITION_BUDGET)[0]
        except CelError as error:
            raise ExpressionFailed(str(error).partition("\n")[0]) from None

    def text(self, claims: Mapping[str, Any]) -> str:
        """The result, which must be a text. Raises `ExpressionFailed`."""
        value = self.value(claims)
        if not isinstance(value, str):
            raise ExpressionFailed("it must return a string")
        return value

    def texts(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        """The result: a text, a list of texts, or null; empty ones are left out. Raises `ExpressionFailed`."""
        value = self.value(claims)
        values = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(value, str) for value in values):
            raise ExpressionFailed("it must return a string or a list of strings")
        return tuple(value for value in values if value)

    def holds(self, about: Mapping[str, Any] | User) -> bool:
        """Whether the condition holds. Raises `ExpressionFailed`."""
        return self.value(about) is True


def _claims(claims: Any) -> Any:
    """Claims as expressions read them: every number is a double, as in Go."""
    if isinstance(claims, Mapping):
        return {key: _claims(claim) for key, claim in claims.items()}
    if isinstance(claims, list):
        return [_claims(claim) for claim in claims]
    return as_double(claims) if isinstance(claims, int) and not isinstance(claims, bool) else claims


def _user(user: User) -> dict[str, Any]:
    """A user as expressions read it."""
    extra = {key: [*values] for key, values in user.extra.items()}
    return {"username": user.name, "uid": user.uid, "groups": [*user.groups], "extra": extra}


def _nodes(node: Expr) -> Iterator[Expr]:
    """A part of an expression, and all parts of it."""
    waiting: list[Any] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, Expr):
            yield part
            waiting += [getattr(part, field.name) for field in fields(part) if field.name != "type"]


def _claim_read(node: Expr) -> str:
    """The claim that this part reads by its name, ``""`` for none."""
    match node:
        case Select(operand=Ident(name="claims"), field=name):
            return name
        case Call(function="_?._", args=[Ident(name="claims"), Const(value=str(name))]):
            return name
    return ""


def _mean_the_field(node: Expr) -> None:
    """Let a part that has an escaped name mean the field."""
    match node:
        case Select():
            node.field = unescape(node.field)
        case Call(function="_?._", args=[_, Const(value=str(name)) as constant]):
            constant.value = unescape(name)


SIGNING_ALGORITHMS = ("ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512")
LEEWAY_S = 60.0
_GOOGLE = "accounts.google.com"

CountVerification = Callable[[str, bool, float], None]
"""Told of each token that an issuer is named in: the issuer's URL, whether it was accepted, the seconds it took."""


@dataclass(frozen=True, slots=True)
class TokenIssuerRules:
    """What is asked of the tokens of one issuer: one of `audiences`, one of `algorithms`, and `claims`."""

    place: IssuerPlace
    audiences: Sequence[str]
    claims: ClaimRules
    algorithms: Sequence[str] = SIGNING_ALGORITHMS


class IssuedTokens:
    """Identifies tokens of these issuers, each with its keys. They are good for `audiences`, the server's own."""

    waits = False  # takes its task itself, when it needs keys that aren't there

    def __init__(
        self,
        issuers: Iterable[tuple[TokenIssuerRules, IssuerKeys]],
        audiences: Sequence[str],
        clock: Clock,
        measure: CountVerification = lambda issuer, accepted, seconds: None,
    ) -> None:
        self._issuers = {rules.place.url: (rules, keys) for rules, keys in issuers}
        self._audiences = tuple(audiences)
        self._clock = clock
        self._measure = measure

    async def identify(self, token: str, audiences: Sequence[str]) -> TokenAnswer | None:
        parsed = parse_jwt(token) if self._issuers else None
        if parsed is None:
            return None
        name = parsed.claim("iss")
        rules, keys = self._issuers.get(f"https://{name}" if name == _GOOGLE else name, (None, None))
        if rules is None or keys is None:
            return None
        began, answer = self._clock.monotonic(), None
        try:
            answer = await self._verified(parsed, rules, keys, audiences)
        finally:
            self._measure(rules.place.url, answer is not None, self._clock.monotonic() - began)
        return answer

    async def _verified(
        self, token: JWT, rules: TokenIssuerRules, keys: IssuerKeys, audiences: Sequence[str]
    ) -> TokenAnswer:
        """Raises `BadCredentials`."""
        try:
            until = self._must_be_current(token)
        except ValueError as error:
            raise BadCredentials(f"the token of {rules.place.url}: {error}") from None
        if not set(token.audiences) & set(rules.audiences):
            raise BadCredentials(f"the token of {rules.place.url} is for other audiences")
        if token.algorithm not in rules.algorithms:
            raise BadCredentials(f"the token of {rules.place.url} has an algorithm that isn't accepted")
        await _must_be_signed(token, keys)
        withdrawals = keys.withdrawals
        user = rules.claims.user(token.claims)
        ours = tuple(audience for audience in audiences if audience in self._audiences)
        if self._audiences and audiences and not ours:
            raise BadCredentials("the token is for this server, and not for the audiences that are asked about")
        return TokenAnswer(Identity(user, ours or None), until, lambda: keys.withdrawals == withdrawals)

    def _must_be_current(self, token: JWT) -> float:
        """When it expires. Raises `BadCredentials`, ValueError."""
        now, expires, begins = self._clock.now(), token.time("exp"), token.time("nbf")
        if expires is None:
            raise ValueError("it has no claim exp")
        if expires <= now:
            raise BadCredentials("the token has expired")
        if begins is not None and begins > now + LEEWAY_S:
            raise BadCredentials("the token is not valid yet")
        return expires


async def _must_be_signed(token: JWT, keys: IssuerKeys) -> None:
    """Raises `BadCredentials` unless one of the issuer's keys has signed the token."""
    if _signed_by(token, keys):
        return
    if keys.may_change():
        await ensure_task()
        async with asyncio.timeout(DEADLINE_S):
            await keys.changed()
        if _signed_by(token, keys):
            return
    if not keys.keys:
        raise BadCredentials(f"the keys of the issuer {keys.place.url} can't be had: {keys.problem}")
    raise BadCredentials(f"no key of the issuer {keys.place.url} has signed the token")


def _signed_by(token: JWT, keys: IssuerKeys) -> bool:
    return any(key.has_signed(token) for key in fitting(keys.keys, token.key_id))
