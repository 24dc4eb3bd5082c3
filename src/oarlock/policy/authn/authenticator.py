"""`Authenticator`: from the credentials of a request to a `User`. `Union` tries several in order.

Must not know: paths, sockets, what the user may do. See also: `token_file` and `certificates`, which implement it;
``server.filters.authentication``, which calls it. Source: k8s.io/apiserver ``authentication/request/union`` and
``group``, reference rows "Authentication".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from oarlock.meta.context import Notes, User

__all__ = ["AUTHENTICATED", "Authenticator", "BadCredentials", "Credentials", "Union", "authenticated"]

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


class BadCredentials(Exception):
    """The request's credentials aren't valid. The text is for the log; the client only gets 401."""


class Credentials:
    """The credentials in a request.

    `headers` have lower-case names; `certificate` and `chain` are the client's in DER, unverified. `notes` collects
    warnings to the client about credentials that were ignored.
    """

    __slots__ = ("certificate", "chain", "headers", "notes")

    def __init__(
        self,
        headers: Mapping[str, str],
        certificate: bytes | None = None,
        chain: tuple[bytes, ...] = (),
        notes: Notes | None = None,
    ) -> None:
        self.headers = headers
        self.certificate = certificate
        self.chain = chain
        self.notes = notes


class Authenticator(Protocol):
    """One method of authentication. Write one as a subclass."""

    waits: bool = True
    """Whether `authenticate` may wait; it then runs in a task. Set False if it never does."""

    async def authenticate(self, credentials: Credentials) -> User | None:
        """The user; None when the request has no credentials of this kind. Raises `BadCredentials`.

        Called for every request, so cache what is expensive. May wait.
        """
        ...


def authenticated(user: User) -> User:
    """The user with the group ``system:authenticated``."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _any_waits(authenticators: Sequence[Authenticator]) -> bool:
    return any(one.waits for one in authenticators)


class Union:
    """Tries each authenticator in turn; the first that knows the user wins.

    Invalid credentials of one kind don't hide valid ones of another: they count only if no authenticator knows the
    user.
    """

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        self._authenticators = tuple(authenticators)
        self.waits = _any_waits(self._authenticators)

    def exchange(self, position: int, new: Authenticator) -> None:
        """Replace the authenticator at `position`, from the next request on."""
        before = self._authenticators
        self._authenticators = (*before[:position], new, *before[position + 1 :])
        self.waits = _any_waits(self._authenticators)

    async def authenticate(self, credentials: Credentials) -> User | None:
        wrong: list[str] = []
        for authenticator in self._authenticators:
            try:
                user = await authenticator.authenticate(credentials)
            except BadCredentials as error:
                wrong.append(str(error))
                continue
            if user is not None:
                return authenticated(user)
        if wrong:
            raise BadCredentials("; ".join(wrong))
        return None
