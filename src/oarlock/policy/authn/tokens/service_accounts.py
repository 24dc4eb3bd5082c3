"""Tokens of service accounts: who they are for, and whether what they are bound to is still there.

A token dies with its account, and with the secret, pod or node it is bound to. Its identity is remembered as long as
these are the same objects at the same revisions; they are looked at with every request. That of a secret is remembered
until the day ends: its use is noted once a day, and refused if a label says so.
Must not know: how tokens are asked for. See also: `token_issuer`, which makes them. Source: k8s.io/kubernetes
``pkg/serviceaccount``.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oarlock.meta.context import Clock, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import rfc3339
from oarlock.policy.authn.authenticator import BadCredentials, Identity, StoredObjects
from oarlock.policy.authn.tokens.bearer_tokens import FOR_EVER, TokenAnswer
from oarlock.policy.authn.tokens.jwt import JWT, VerificationKey, parse_jwt, signer_of
from oarlock.registry.workers import ensure_task

LEGACY_ISSUER = "kubernetes/serviceaccount"
LEGACY = "kubernetes.io/serviceaccount/"
LEEWAY_S = 60.0
"""How far the clock of another server may be behind, which issued a token."""

EXTRA = "authentication.kubernetes.io/"
INVALIDATED = "service account token has been invalidated"
LAST_USED = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
NOTED = "authentication.k8s.io/legacy-token-"
"""Begins the names of audit annotations about tokens in secrets."""

DAY_S = 86_400.0
GENERATED = (
    "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated "
    "secret-based tokens."
)
MARKED = (
    "the token in secret {0}/{1} for service account {0}/{2} has been marked invalid. Use tokens from the TokenRequest "
    f"API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to "
    "temporarily allow use of this token"
)


@dataclass(frozen=True, slots=True)
class BoundObject:
    """An object that a token is bound to. `resource` is of the group ``""``."""

    resource: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class TokenBinding:
    """What a token says of itself: its account, first of `objects`, and what else it is bound to."""

    objects: tuple[BoundObject, ...]
    token_id: str = ""
    node: tuple[str, str] | None = None
    """Name and uid of the node that the pod was on when the token was made."""

    @property
    def account(self) -> BoundObject:
        return self.objects[0]


def user_of(binding: TokenBinding) -> User:
    """The user that a service account is."""
    account = binding.account
    extra: dict[str, tuple[str, ...]] = {}
    if binding.token_id:
        extra[EXTRA + "credential-id"] = (f"JTI={binding.token_id}",)
    for bound in binding.objects[1:]:
        if bound.resource != "secrets":
            kind = bound.resource.removesuffix("s")
            extra[f"{EXTRA}{kind}-name"], extra[f"{EXTRA}{kind}-uid"] = (bound.name,), (bound.uid,)
    if binding.node is not None:
        extra[EXTRA + "node-name"], extra[EXTRA + "node-uid"] = (binding.node[0],), (binding.node[1],)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}")
    return User(f"system:serviceaccount:{account.namespace}:{account.name}", account.uid, groups, extra)


class SecretTokenUses:
    """The secrets whose tokens were used today and whose label `LAST_USED` doesn't say so yet.

    `pending` has the merge patches that say it; `added` is called when there is another. There are at most as many as
    secrets.
    """

    def __init__(self) -> None:
        self.pending: dict[BoundObject, Tree] = {}
        self.added: Callable[[], None] | None = None

    def note(self, secret: BoundObject, labels: Mapping[str, str], now: float) -> None:
        """The token in `secret` was used; it has these labels."""
        today, tomorrow = (_day(seconds) for seconds in (now, now + DAY_S))
        if labels.get(LAST_USED) not in (today, tomorrow):  # the clock of another server may be ahead
            self.pending[secret] = {"metadata": {"uid": secret.uid, "labels": {LAST_USED: today}}}
            if self.added is not None:
                self.added()


def _day(seconds: float) -> str:
    return rfc3339(seconds).partition("T")[0]


class ServiceAccountTokens:
    """Identifies tokens of `issuers`, signed with one of `keys`.

    `audiences` are those of the server; a token without any, as secrets have, is for these. Without `objects` (no
    lookup) a token is good until it expires, whatever became of its account. `uses` is told of tokens in secrets.
    """

    waits = False  # takes its task itself, when it must know what other servers have stored

    def __init__(
        self,
        issuers: Sequence[str],
        keys: Callable[[], Sequence[VerificationKey]],
        audiences: Sequence[str],
        objects: StoredObjects | None,
        clock: Clock,
        uses: SecretTokenUses | None = None,
    ) -> None:
        self._uses = uses or SecretTokenUses()
        self._issuers = frozenset((*issuers, LEGACY_ISSUER))
        self._keys = keys
        self._audiences = tuple(audiences)
        self._objects = objects
        self._clock = clock

    async def identify(self, token: str, audiences: Sequence[str]) -> TokenAnswer | None:
        parsed = parse_jwt(token)
        if parsed is None or parsed.claim("iss") not in self._issuers:
            return None
        if signer_of(parsed, self._keys()) is None:
            raise BadCredentials("no key of the server has signed this service account token")
        try:
            until = self._must_be_current(parsed)
            binding = _binding(parsed)
        except (ValueError, KeyError, TypeError) as error:
            raise BadCredentials(f"service account token: {error}") from None
        is_legacy = parsed.claim("iss") == LEGACY_ISSUER
        issued_for = parsed.audiences or self._audiences
        fitting = tuple(audience for audience in issued_for if audience in audiences)
        if audiences and not fitting:
            raise BadCredentials(
                f"token audiences {_quoted(issued_for)} is invalid for the target audiences {_quoted(audiences)}"
            )
        still = await self._bound(binding, token if is_legacy else "")
        identity = Identity(user_of(binding), fitting or None)
        if not is_legacy or self._objects is None:
            return TokenAnswer(identity, until, still)
        now = self._clock.now()
        identity = self._of_secret(self._objects, binding, identity, now)
        return TokenAnswer(identity, min(until, (now // DAY_S + 1) * DAY_S), still)

    def _of_secret(self, objects: StoredObjects, binding: TokenBinding, identity: Identity, now: float) -> Identity:
        """Note the use of the token in a secret, for which there may be warnings. Raises `BadCredentials`."""
        account, bound = binding.objects
        secret, tree = objects.read(*_key(bound)) or {}, objects.read(*_key(account)) or {}
        metadata = secret.get("metadata") or {}
        labels = metadata.get("labels") or {}
        self._uses.note(replace(bound, uid=metadata.get("uid", "")), labels, now)
        if labels.get(INVALID_SINCE):
            noted = (f"{NOTED}invalidated", f"{bound.name}/{bound.namespace}")
            raise BadCredentials(MARKED.format(bound.namespace, bound.name, account.name), annotations=(noted,))
        if any(reference.get("name") == bound.name for reference in tree.get("secrets") or ()):
            noted = (f"{NOTED}autogenerated-secret", bound.name)
            return replace(identity, warnings=(GENERATED,), annotations=(noted,))
        return replace(identity, annotations=((f"{NOTED}manual-secret", bound.name),))

    def _must_be_current(self, token: JWT) -> float:
        """When it expires. Raises `BadCredentials`, ValueError."""
        now, expires, begins = self._clock.now(), token.time("exp"), token.time("nbf")
        if expires is None and token.claim("iss") != LEGACY_ISSUER:
            raise ValueError("it has no claim exp")
        if expires is not None and expires <= now:
            raise BadCredentials("service account token has expired")
        if begins is not None and begins > now + LEEWAY_S:
            raise BadCredentials("service account token is not valid yet")
        return FOR_EVER if expires is None else expires

    async def _bound(self, binding: TokenBinding, legacy: str) -> Callable[[], bool] | None:
        """Checks what the token is bound to; returns what says that this hasn't changed. Raises `BadCredentials`."""
        objects = self._objects
        if objects is None:
            return None
        try:
            revisions = _revisions(objects, binding, legacy)
        except BadCredentials:  # an object that another server has just made?
            await ensure_task()
            await objects.fresh()
            revisions = _revisions(objects, binding, legacy)
        revision = objects.revision
        if len(revisions) == 1:
            account, seen = binding.account, revisions[0]
            return lambda: revision("serviceaccounts", account.namespace, account.name) == seen
        pairs = tuple(zip(binding.objects, revisions, strict=True))
        return lambda: all(revision(bound.resource, bound.namespace, bound.name) == seen for bound, seen in pairs)


def _revisions(objects: StoredObjects, binding: TokenBinding, legacy: str) -> list[int]:
    """The revisions of the objects. Raises `BadCredentials` if one isn't the one meant any more."""
    found = []
    for bound in binding.objects:
        revision, tree = objects.revision(*_key(bound)), objects.read(*_key(bound))
        if tree is None:
            missing = f"{bound.resource} {quote(bound.name)} not found"
            raise BadCredentials(missing if bound is binding.account else INVALIDATED)
        metadata = tree["metadata"]
        if bound.uid and metadata.get("uid") != bound.uid:
            raise BadCredentials(f"{bound.resource} {quote(bound.name)} is another one than the token was made for")
        if metadata.get("deletionTimestamp") and bound.resource != "pods":
            raise BadCredentials(INVALIDATED)
        if legacy and bound.resource == "secrets" and not _holds(tree, legacy):
            raise BadCredentials(INVALIDATED)
        found.append(revision)
    return found


def _holds(secret: Mapping[str, Any], token: str) -> bool:
    """Whether the token is the one in its secret."""
    try:
        stored = base64.b64decode((secret.get("data") or {}).get("token", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(stored, token.encode())


def _key(bound: BoundObject) -> tuple[str, str, str]:
    return bound.resource, bound.namespace, bound.name


def _binding(token: JWT) -> TokenBinding:
    """What the claims say. Raises KeyError, TypeError, ValueError when one is missing or of another type."""
    if token.claim("iss") == LEGACY_ISSUER:
        namespace = _text(token.claims[LEGACY + "namespace"])
        name, uid = (_text(token.claims[LEGACY + "service-account." + field]) for field in ("name", "uid"))
        secret = BoundObject("secrets", namespace, _text(token.claims[LEGACY + "secret.name"]), "")
        binding = TokenBinding((BoundObject("serviceaccounts", namespace, name, uid), secret))
    else:
        claims = token.claims["kubernetes.io"]
        namespace = _text(claims["namespace"])
        account = claims["serviceaccount"]
        objects = [BoundObject("serviceaccounts", namespace, _text(account["name"]), _text(account["uid"]))]
        node = claims.get("node")
        for kind in ("pod", "secret"):
            if (given := claims.get(kind)) is not None:
                objects.append(BoundObject(kind + "s", namespace, _text(given["name"]), _text(given["uid"])))
        if node is not None and len(objects) == 1:
            objects.append(BoundObject("nodes", "", _text(node["name"]), _text(node["uid"])))
            node = None
        on = None if node is None else (_text(node["name"]), _text(node.get("uid", ""), empty=True))
        binding = TokenBinding(tuple(objects), token.claim("jti"), on)
    account_name = binding.account.name
    if token.claim("sub") != f"system:serviceaccount:{binding.account.namespace}:{account_name}":
        raise ValueError("its subject is not its service account")
    return binding


def _text(value: Any, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or empty):
        raise ValueError("a claim is no text")
    return value


def _quoted(texts: Sequence[str]) -> str:
    return "[" + " ".join(map(quote, texts)) + "]"
