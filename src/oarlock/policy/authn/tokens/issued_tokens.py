"""`IssuedTokens`: tokens that issuers elsewhere have signed (OpenID Connect ID tokens, and others in JWT).

An issuer is asked for its keys, never about a token. Who has none yet, or can't be reached, lets nobody new in.
Must not know: HTTP, files. See also: `issuer_keys`, `claim_rules`. Source: k8s.io/apiserver
``plugin/pkg/authenticator/token/oidc``; OpenID Connect Core §3.1.3.7.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.policy.authn.authenticator import DEADLINE_S, BadCredentials, Identity
from oarlock.policy.authn.tokens.bearer_tokens import TokenAnswer
from oarlock.policy.authn.tokens.claim_rules import ClaimRules
from oarlock.policy.authn.tokens.issuer_keys import IssuerKeys, IssuerPlace, fitting
from oarlock.policy.authn.tokens.jwt import JWT, parse_jwt
from oarlock.registry.workers import ensure_task

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
