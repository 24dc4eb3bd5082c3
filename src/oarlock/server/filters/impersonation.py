"""Impersonation (``kubectl --as``): a request is carried out as another user, if its sender may impersonate them.

The sender needs the verb ``impersonate`` on every part of who they want to be: ``users`` or ``serviceaccounts``,
``groups``, ``uids``, ``userextras/KEY``. The headers are removed; whoever records requests compares ``state.user`` with
who it was before. Source: k8s.io/apiserver ``endpoints/filters/impersonation``. See also: `identity_headers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import Target, User
from oarlock.meta.errors import BadRequest
from oarlock.meta.go import percent
from oarlock.meta.names import dns1123_label, dns1123_subdomain
from oarlock.policy.authz.authorizer import Authorizer, decided, forbidden
from oarlock.registry.workers import ensure_task

__all__ = ["IMPERSONATION", "impersonate"]

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
        raise BadRequest(f"requested {given} without impersonating a user name: give {_USER} too")
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
