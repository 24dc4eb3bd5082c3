"""Who sends a request, and whether they may: authentication, front proxies, impersonation, authorization.

Once the user is known, headers that claim to be another are looked at: a front proxy's are removed, those of
``kubectl --as`` are followed. An impersonating sender needs the verb ``impersonate`` on every part of who they want to
be: ``users`` or ``serviceaccounts``, ``groups``, ``uids``, ``userextras/KEY``; whoever records requests compares
``state.user`` with who it was before. Source: k8s.io/apiserver ``endpoints/filters`` authentication, impersonation and
authorization. See also: ``policy.authn``, ``policy.authz``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from oarlock.endpoints.request_state import ANONYMOUS, RequestState
from oarlock.meta.context import Target, User
from oarlock.meta.errors import BadRequest, Unauthorized
from oarlock.meta.go import percent
from oarlock.meta.names import dns1123_label, dns1123_subdomain
from oarlock.policy.audit.event import AuditRecord
from oarlock.policy.authn.authenticator import (
    NOBODY,
    UNDECIDED,
    Anonymous,
    Authenticator,
    BadCredentials,
    Credentials,
    Identity,
)
from oarlock.policy.authn.front_proxy_headers import FrontProxyHeaders
from oarlock.policy.authn.tokens.bearer_tokens import SUBPROTOCOLS, without_token
from oarlock.policy.authz.authorizer import ALLOWED, AccessCounts, Authorizer, Decision, Outcome, decided, forbidden
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.workers import ensure_task, sync_variant
from oarlock.server.authentication.counts import AttemptResult
from oarlock.server.filters.filter import FilterStep

IMPERSONATION: Final = "impersonate-"
"""What the names of the headers begin with."""

_USER, _GROUP, _UID, _EXTRA = (IMPERSONATION + name for name in ("user", "group", "uid", "extra-"))
_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATED, _UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
_ANONYMOUS = "system:anonymous"
_AUTHENTICATION = "authentication.k8s.io"


async def impersonate(state: RequestState, authorizer: Authorizer) -> None:
    """Make the request that of the user in its headers, if it names one. Raises Forbidden, BadRequest."""
    lines = [(name, _text(value)) for name, value in state.request.all_headers if name.startswith(IMPERSONATION)]
    wanted = _wanted(lines)
    if wanted is not None:
        for target in _targets(wanted):
            if authorizer.waits:
                await ensure_task()
            decision = decided(await authorizer.decide(state.user, target), type(authorizer).__qualname__)
            if not decision.allowed:
                raise forbidden(state.user, target, decision.reason)
        state.user = _complete(wanted)
    for name, _ in lines:
        state.request.headers.pop(name, None)


def _wanted(lines: Sequence[tuple[str, str]]) -> User | None:
    """The user that the headers name; None if they name nobody. Headers that aren't known count for nothing."""
    name = next((value for header, value in lines if header == _USER), "")
    groups = tuple(value for header, value in lines if header == _GROUP)
    uid = next((value for header, value in lines if header == _UID), "")
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in lines:
        if header.startswith(_EXTRA):
            key = _key(header.removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    if not name and (groups or uid or extra):
        given = ", ".join(dict.fromkeys(header for header, _ in lines))
        raise BadRequest(f"requested {given} without impersonating a user name: set {_USER}, too")
    return User(name, uid, groups, extra) if name else None


def _text(value: str) -> str:
    """A header's value: UTF-8 where it is that."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _key(escaped: str) -> str:
    """The key of an extra, in lower case and percent-decoded; as it is if that makes no text."""
    key = escaped.lower()
    if percent.bad_escape(key) is not None:
        return key
    try:
        return percent.decoded(key).decode()
    except UnicodeDecodeError:
        return key


def _account(name: str) -> tuple[str, str] | None:
    """The namespace and name of a service account; None for any other user."""
    namespace, colon, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or not colon or dns1123_label(namespace) or dns1123_subdomain(account):
        return None
    return namespace, account


def _targets(user: User) -> Iterator[Target]:
    """What the sender must be allowed to impersonate."""
    account = _account(user.name)
    if account is not None:
        yield Target("impersonate", "", "v1", "serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Target("impersonate", "", "v1", "users", name=user.name)
    for group in user.groups:
        yield Target("impersonate", "", "v1", "groups", name=group)
    for key, values in user.extra.items():
        for value in values:
            yield Target("impersonate", _AUTHENTICATION, "v1", "userextras", key, name=value)
    if user.uid:
        yield Target("impersonate", _AUTHENTICATION, "v1", "uids", name=user.uid)


def _complete(user: User) -> User:
    """The user with the groups that everybody of their kind is in."""
    groups = user.groups
    account = _account(user.name)
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    if user.name == _ANONYMOUS:
        groups = groups if _UNAUTHENTICATED in groups else (*groups, _UNAUTHENTICATED)
    elif _AUTHENTICATED not in groups and _UNAUTHENTICATED not in groups:
        groups = (*groups, _AUTHENTICATED)
    return User(user.name, user.uid, groups, user.extra)


_COMMON = frozenset(
    (
        "accept",
        "accept-encoding",
        "accept-language",
        "audit-id",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "if-none-match",
        "kubectl-command",
        "kubectl-session",
        "origin",
        "sec-websocket-extensions",
        "sec-websocket-key",
        "sec-websocket-protocol",
        "sec-websocket-version",
        "traceparent",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    )
)
"""The names that most requests consist of: comparing sets is three times as fast as a loop over the names."""


def identity_headers(front_proxy: FrontProxyHeaders, authorizer: Authorizer) -> FilterStep:
    """The filter. `front_proxy` says which headers are a front proxy's, `authorizer` who may impersonate whom."""

    names = front_proxy.names
    harmless = _COMMON - names

    def follow(state: RequestState) -> Awaitable[None] | None:
        nonlocal names, harmless
        headers = state.request.headers
        if front_proxy.names is not names:
            names = front_proxy.names
            harmless = _COMMON - names
        if harmless.issuperset(headers):
            return None
        for name in [name for name in headers if front_proxy.has(name)]:
            del headers[name]
        if any(name.startswith(IMPERSONATION) for name in headers):
            return impersonate(state, authorizer)
        return None

    return follow


log = logging.getLogger("oarlock.authn")

LOGGED = 500
"""So many characters of what a client spells are logged."""

Attempted = Callable[[AttemptResult, float, str], None]
"""Called for each request: what authentication found, the seconds it took (0 from memory), the user's name."""


def uncounted(outcome: AttemptResult, seconds: float, name: str) -> None:
    """An `Attempted` that counts nothing."""


def authentication(
    authenticator: Authenticator,
    anonymous: Anonymous = NOBODY,
    audiences: frozenset[str] = frozenset(),
    attempted: Attempted = uncounted,
) -> Callable[[RequestState], Awaitable[None] | None]:
    """What finds out who sends a request; it returns a coroutine where it has to wait.

    `anonymous` says who needs no credentials; it gets the path as it was sent.

    Invalid credentials are refused with 401 on every path, the anonymous ones too; so are those that were issued for
    other `audiences` than the server's.
    """

    authenticate_cached = sync_variant(authenticator, "authenticate", "authenticate_cached")

    def authenticate(state: RequestState) -> Awaitable[None] | None:
        request = state.request
        identity = UNDECIDED if authenticate_cached is None else authenticate_cached(request.headers, request.peer)
        if identity is UNDECIDED or (audiences and identity is not None and not identity.is_for(audiences)):
            return ask(state)
        found(state, identity, 0.0)
        return None

    async def ask(state: RequestState) -> None:
        request, began = state.request, state.clock.monotonic()
        if authenticator.waits:
            await ensure_task()
        try:
            identity = await authenticator.authenticate(
                Credentials(request.headers, request.received_headers, request.peer, state.notes, request.http2)
            )
            if audiences and identity is not None and not identity.is_for(audiences):
                raise BadCredentials(f"the credential is for {identity.audiences}, not for {sorted(audiences)}")
        except BadCredentials as error:
            attempted("error", state.clock.monotonic() - began, "")
            for key, value in error.annotations:
                state.notes.audit(key, value)
            place, address, why = request.path[:LOGGED], request.peer.address, str(error)[:LOGGED]
            log.info("unable to authenticate %s %s from %s: %s", request.method, place, address, why)
            raise Unauthorized from None
        found(state, identity, state.clock.monotonic() - began)

    def found(state: RequestState, identity: Identity | None, seconds: float) -> None:
        request = state.request
        headers = request.headers
        if identity is None:
            let_in = anonymous.may_ask(request.path)
            name = ANONYMOUS.name if let_in else ""
            attempted("success" if let_in else "failure", seconds, name)
            if not let_in:
                raise Unauthorized
            state.user = ANONYMOUS
        else:
            state.user = user = identity.user
            attempted("success", seconds, user.name)
            for name in identity.strip:
                headers.pop(name, None)
            if identity.annotations or identity.warnings:
                _note(state, identity)
        headers.pop("authorization", None)
        if SUBPROTOCOLS in headers:
            offered = [value for name, value in request.all_headers if name == SUBPROTOCOLS]
            request.replace_header(SUBPROTOCOLS, without_token(offered))

    return authenticate


def _note(state: RequestState, identity: Identity) -> None:
    for text in identity.warnings:
        state.notes.warn(text)
    for key, value in identity.annotations:
        state.notes.audit(key, value)


def authorization(authorizer: Authorizer, counts: AccessCounts) -> FilterStep:
    """The filter: 403 for what `authorizer` doesn't allow. `counts` has each request."""
    attempts = counts.attempts
    code = HookCaller(f"{type(authorizer).__qualname__}.decide")
    waits = authorizer.waits
    at_once = sync_variant(authorizer, "decide", "authorize_cached")

    def authorize(state: RequestState) -> Awaitable[None] | None:
        decision = None if at_once is None else at_once(state.user, state.target)
        if decision is ALLOWED and state.audit is None:
            attempts["allowed"] += 1
            return None
        if decision is None:
            return ask(state)
        judge(state, decision)
        return None

    async def ask(state: RequestState) -> None:
        try:
            if waits:
                await ensure_task()
                decision = await code.timed(state.clock, authorizer.decide(state.user, state.target))
            else:
                decision = await authorizer.decide(state.user, state.target)
        except Exception:
            attempts["error"] += 1
            raise
        judge(state, decision)

    def judge(state: RequestState, decision: Decision) -> None:
        if state.audit is not None:
            _annotate(state.audit, decision)
        if decision is not ALLOWED and not decided(decision, code.name).allowed:
            attempts["denied" if decision.outcome is Outcome.DENY else "no-opinion"] += 1
            raise forbidden(state.user, state.target, decision.reason)
        attempts["allowed"] += 1

    return authorize


def _annotate(record: AuditRecord, decision: object) -> None:
    """Say in the audit log who decided, and why."""
    if isinstance(decision, Decision):
        record.annotate("authorization.k8s.io/decision", "allow" if decision.allowed else "forbid")
        record.annotate("authorization.k8s.io/reason", decision.reason)
