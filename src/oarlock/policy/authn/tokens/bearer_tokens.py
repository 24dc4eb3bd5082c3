"""`BearerTokens`: the token of a request, found, tried with each `TokenAuthenticator` in turn, and remembered.

Must not know: what a valid token is. See also: `token_file`, `service_accounts`, `token_review`, `oidc`, which know.
Source: k8s.io/apiserver ``authentication/request/bearertoken``,
``authentication/token/union``.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from oarlock.meta.context import Clock, Notes, Peer
from oarlock.meta.dataclass import dataclass
from oarlock.meta.memo import Memo
from oarlock.policy.authn.authenticator import (
    DEADLINE_S,
    UNDECIDED,
    BadCredentials,
    Credentials,
    Identity,
    failed,
    in_all_authenticated,
)
from oarlock.registry.workers import ensure_task

SUBPROTOCOLS = "sec-websocket-protocol"
PREFIX = "base64url.bearer.authorization.k8s.io."
"""The prefix of a subprotocol's name that carries a token."""

_tokens = re.compile(r"(?:^|,)[ \t]*" + re.escape(PREFIX) + "[^,]*")

MAX_OFFERED = 64
EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"


def bearer_token(header: str, notes: Notes | None = None) -> str | None:
    """The token; None for another scheme, an empty token, or two spaces before it; `notes` then gets a warning."""
    parts = header.strip(" \t").split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return None
    if parts[1]:
        return parts[1]
    if len(parts) == 3 and notes is not None:
        notes.warn(EXTRA_SPACE)
    return None


def subprotocol_token(credentials: Credentials) -> str | None:
    """The token among the subprotocols that a WebSocket request offers; None without one. Raises BadCredentials.

    There must be another subprotocol, for the answer to choose: a token is never sent back. Source: k8s.io/apiserver
    ``authentication/request/websocket``.
    """
    lines = credentials.values(SUBPROTOCOLS)
    if not any(PREFIX in line for line in lines) or credentials.headers.get("upgrade", "").lower() != "websocket":
        return None
    protocols = [protocol.strip() for protocol in ",".join(lines).split(",", MAX_OFFERED)]
    if len(protocols) > MAX_OFFERED:
        raise BadCredentials(f"more than {MAX_OFFERED} subprotocols offered beside a token")
    tokens = [protocol.removeprefix(PREFIX) for protocol in protocols if protocol.startswith(PREFIX)]
    if len(tokens) > 1:
        raise BadCredentials("multiple base64.bearer.authorization tokens specified")
    if not tokens or not tokens[0]:
        return None
    if len(tokens) == len(protocols):
        raise BadCredentials("missing additional subprotocol")
    try:
        encoded = tokens[0].encode()
        if b"=" in encoded:
            raise binascii.Error("padding")
        return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError) as error:
        raise BadCredentials("invalid base64.bearer.authorization token encoding") from error


def without_token(lines: Iterable[str]) -> list[str]:
    """The values of ``Sec-WebSocket-Protocol`` lines without the tokens among them; no line is left empty."""
    cleaned = (_tokens.sub("", line).strip(", \t") for line in lines)
    return [line for line in cleaned if line]


REMEMBERED_BYTES = 16 * 1024 * 1024
LONGEST_REMEMBERED = 8192
FOR_EVER = float("inf")
INVALID = "invalid bearer token"


class BadToken(BadCredentials):
    """No authenticator accepts the token. `reasons` are those of the authenticators that gave one."""

    def __init__(self, reasons: Sequence[str] = (), *, annotations: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__("; ".join((INVALID, *reasons)), annotations=annotations)
        self.reasons = tuple(reasons)


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """Whose a token is, and how long that may be remembered.

    It holds until `until`, in seconds since the epoch, as long as `still` returns True: what the token is bound to is
    there. `still` is called with every request, so it must be quick.
    """

    identity: Identity
    until: float = FOR_EVER
    still: Callable[[], bool] | None = None


class TokenAuthenticator(Protocol):
    """One kind of bearer token. Write one as a subclass."""

    waits: bool = True
    """Whether it may wait; the request then gets a task first."""

    async def identify(self, token: str, audiences: Sequence[str]) -> TokenAnswer | None:
        """Whose the token is; None if it isn't of this kind. Raises `BadCredentials`, whose text must not show it.

        It must be good for one of `audiences`, if there are any; the identity has those that fit.
        """
        ...


class BearerTokens:
    """Authenticates requests by their bearer token. `audiences` are the server's own.

    What the first authenticator said that knows the token is remembered by the whole header: an attacker's guess is
    never among those, and finding one by timing would first need a collision of Python's keyed string hash. One that
    waits has `deadline_s`. One that fails is logged, and lets nobody in.
    """

    waits = False  # takes its task itself, when it asks an authenticator that waits

    def __init__(
        self,
        authenticators: Sequence[TokenAuthenticator],
        clock: Clock,
        audiences: Sequence[str] = (),
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.audiences = tuple(audiences)
        self.hits = self.misses = 0
        """How many tokens of requests were remembered, and how many weren't."""
        self._authenticators = tuple(authenticators)
        self._clock = clock
        self._deadline_s = deadline_s
        self.remembered: Memo[str, TokenAnswer] = Memo(
            REMEMBERED_BYTES, entry_bytes=2048, longest_bytes=LONGEST_REMEMBERED
        )

    def exchange(self, position: int, new: TokenAuthenticator) -> None:
        """Replace the authenticator at `position`, from the next request on. Nothing is remembered of before."""
        before = self._authenticators
        self._authenticators = (*before[:position], new, *before[position + 1 :])
        self.forget()

    def forget(self) -> None:
        """Forget what is remembered, because an authenticator has changed."""
        self.remembered.drop(lambda answer: True)

    def authenticate_cached(self, headers: Mapping[str, str], peer: Peer) -> Identity | None:
        """See `AtOnce`."""
        header = headers.get("authorization")
        if header is None:
            return UNDECIDED if SUBPROTOCOLS in headers else None
        known = self.remembered.get(header)
        if known is not None and known.until > self._clock.now() and (known.still is None or known.still()):
            self.hits += 1
            return known.identity
        return UNDECIDED

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        header = credentials.headers.get("authorization")  # of several lines the first counts, as in Kubernetes
        if header is None:
            token = subprotocol_token(credentials)
            return None if token is None else (await self.identify(token, self.audiences)).identity
        known = self.authenticate_cached(credentials.headers, credentials.peer)
        if known is not UNDECIDED:
            return known
        token = bearer_token(header, credentials.notes)
        if token is None:
            return None
        self.misses += 1
        # Header values are bytes shown as latin-1; a token's own text is UTF-8.
        text = token.encode("latin-1", "replace").decode("utf-8", "surrogateescape")
        before = self._authenticators
        answer = await self.identify(text, self.audiences)
        if before is not self._authenticators:  # exchanged meanwhile: what was said till then is for this request only
            return answer.identity
        if len(header) == len(token) + 7:  # no room for endless spellings of one token, which would drive out others
            self.remembered.put(header, answer, len(header))
        return answer.identity

    async def identify(self, token: str, audiences: Sequence[str]) -> TokenAnswer:
        """Whose the token is. Raises `BadToken`."""
        reasons: list[str] = []
        annotations: list[tuple[str, str]] = []
        for authenticator in self._authenticators:
            try:
                answer = await self._ask(authenticator, token, audiences)
            except BadCredentials as error:
                reasons.append(str(error))
                annotations += error.annotations
            except Exception as error:
                reasons.append(failed(authenticator, error))
            else:
                if answer is not None:
                    return TokenAnswer(in_all_authenticated(answer.identity), answer.until, answer.still)
        raise BadToken(reasons, annotations=annotations)

    async def _ask(self, authenticator: TokenAuthenticator, token: str, audiences: Sequence[str]) -> TokenAnswer | None:
        if not authenticator.waits:
            return await authenticator.identify(token, audiences)
        await ensure_task()
        async with asyncio.timeout(self._deadline_s):
            return await authenticator.identify(token, audiences)
