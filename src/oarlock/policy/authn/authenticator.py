"""`Authenticator`: from the `Credentials` of a request to an `Identity`. `Union` tries several in order.

Must not know: paths, sockets, what the user may do. See also: `token_file` and `certificates`, which implement it;
``server.filters.access``, which calls it. Source: k8s.io/apiserver ``authentication/authenticator``,
``authentication/request/union`` and ``group``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from oarlock.meta.context import Notes, Peer, User
from oarlock.meta.dataclass import dataclass
from oarlock.registry.workers import ensure_task, sync_variant


class CertificateBundleError(ValueError):
    """A bundle of authorities can't be used."""


class KeyFileError(ValueError):
    """A file of keys can't be used."""


log = logging.getLogger("oarlock.authn")
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
DEADLINE_S = 10.0
"""How long one authenticator may wait for others, in seconds."""

UNKNOWN_PEER = Peer("", 0)


class BadCredentials(Exception):
    """The request's credentials aren't valid. The text is for the log; the client only gets 401.

    `annotations` are added to the audit event.
    """

    def __init__(self, why: str = "", *, annotations: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(why)
        self.annotations = tuple(annotations)


class Credentials:
    """The headers and client certificate of a request, for authentication.

    `lines` are all header lines in the order of arrival, with names in lower case and values decoded as latin-1.
    `headers` has the first value of each name. `notes` collects warnings to the client about credentials that were
    ignored.
    """

    __slots__ = ("headers", "http2", "lines", "notes", "peer")

    def __init__(
        self,
        headers: Mapping[str, str],
        lines: Sequence[tuple[str, str]],
        peer: Peer = UNKNOWN_PEER,
        notes: Notes | None = None,
        http2: bool = False,
    ) -> None:
        self.headers = headers
        self.lines = lines
        self.peer = peer
        self.notes = notes
        self.http2 = http2

    def values(self, name: str) -> list[str]:
        """The values of all lines of a header, in order."""
        return [value for header, value in self.lines if header == name] if name in self.headers else []


@dataclass(frozen=True, slots=True)
class Identity:
    """The authenticated user of a request.

    - `audiences`: the audiences that the credential was issued for; None if it isn't limited to audiences.
    - `strip`: the headers, in lower case, that carried the credential. They are removed after authentication. The
      header ``authorization``, the front proxy's standard headers and a token among WebSocket subprotocols are always
      removed.
    - `warnings`: for the client of each such request. `annotations`: for its audit event.
    """

    user: User
    audiences: tuple[str, ...] | None = None
    strip: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()

    def is_for(self, audiences: frozenset[str]) -> bool:
        """Whether the credential is valid for a server with these audiences. A server without audiences accepts any."""
        return not audiences or self.audiences is None or not audiences.isdisjoint(self.audiences)


UNDECIDED = Identity(User(""))
"""What `AtOnce` returns in place of an identity: the authenticator must be asked."""

AtOnce = Callable[[Mapping[str, str], Peer], Identity | None]
"""``authenticate_cached`` of an authenticator that can often answer from memory: the identity for headers of a request
(the first value of each name) and who is at the other end; None without credentials of its kind; or `UNDECIDED`."""


class Authenticator(Protocol):
    """One method of authentication. Write one as a subclass, for ``APIServer(authenticators=[…])``."""

    waits: bool = True
    """Whether `authenticate` may wait; it then runs in a task, with a deadline. Set False if it never does."""

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """The user of the request, or None if the request has no credentials of this kind. Raises `BadCredentials`.

        Called for every request, so cache what is expensive, bounded in bytes. May wait.
        """
        ...


def authenticated(user: User) -> User:
    """The user with the group ``system:authenticated``."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


class Union:
    """Tries each authenticator in turn; the first that knows the user wins.

    Invalid credentials of one kind, and a failure of one authenticator, don't hide valid credentials of another: they
    count only if no authenticator knows the user. A request gets a task when the first authenticator that waits is
    asked; that has `deadline_s` to answer.
    """

    waits = False

    def __init__(self, authenticators: Sequence[Authenticator], deadline_s: float = DEADLINE_S) -> None:
        self._authenticators: tuple[Authenticator, ...] = ()
        self._quick: tuple[AtOnce | None, ...] = ()
        self._deadline_s = deadline_s
        self._ask(authenticators)

    def _ask(self, authenticators: Sequence[Authenticator]) -> None:
        self._authenticators = tuple(authenticators)
        self._quick = tuple(
            sync_variant(authenticator, "authenticate", "authenticate_cached") for authenticator in authenticators
        )

    def exchange(self, position: int, new: Authenticator) -> None:
        """Replace the authenticator at `position`, from the next request on."""
        before = self._authenticators
        self._ask((*before[:position], new, *before[position + 1 :]))

    def authenticate_cached(self, headers: Mapping[str, str], peer: Peer) -> Identity | None:
        """See `AtOnce`."""
        try:
            for quick in self._quick:
                identity = UNDECIDED if quick is None else quick(headers, peer)
                if identity is not None:
                    user = identity.user
                    return identity if user.name and AUTHENTICATED in user.groups else UNDECIDED
        except Exception:  # `authenticate` says what comes of that
            return UNDECIDED
        return None

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        refusals: list[str] = []
        annotations: list[tuple[str, str]] = []
        for authenticator in self._authenticators:
            try:
                if authenticator.waits:
                    await ensure_task()
                    async with asyncio.timeout(self._deadline_s):
                        identity = await authenticator.authenticate(credentials)
                else:
                    identity = await authenticator.authenticate(credentials)
                if identity is not None:
                    if not identity.user.name:
                        raise BadCredentials(f"{type(authenticator).__qualname__} named nobody")
                    return in_all_authenticated(identity)
            except BadCredentials as error:
                refusals.append(str(error))
                annotations += error.annotations
            except Exception as error:
                refusals.append(failed(authenticator, error))
        if refusals:
            raise BadCredentials("; ".join(refusals), annotations=annotations)
        return None


def failed(authenticator: object, error: Exception) -> str:
    """Logs that an authenticator has failed, and says so without the reason."""
    name = type(authenticator).__qualname__
    if isinstance(error, OSError):  # nobody there, or too late (TimeoutError): no bug of anybody's
        log.error("%s failed: %s", name, str(error) or "no answer in time")
    else:
        log.error("%s failed", name, exc_info=error)
    return f"{name} failed"


def in_all_authenticated(identity: Identity) -> Identity:
    """The identity, its user in the group ``system:authenticated``."""
    if AUTHENTICATED in identity.user.groups:
        return identity
    return replace(identity, user=authenticated(identity.user))


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Requests without credentials for one of `paths`, compared exactly, are let in; for any path if that is None."""

    paths: frozenset[str] | None

    def may_ask(self, path: str) -> bool:
        return self.paths is None or path in self.paths


NOBODY = Anonymous(frozenset())


class StoredObjects(Protocol):
    """The objects of the group ``""``, as this process has them now. `namespace` is empty for one of the cluster."""

    def revision(self, resource: str, namespace: str, name: str) -> int:
        """The revision of an object; 0 if there is none. Quick: it is asked with every request."""

    def read(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The object as a tree, which must not be changed; None if there is none, or it can't be read."""

    async def fresh(self) -> None:
        """Wait until this process has everything that the store had when this was called."""
