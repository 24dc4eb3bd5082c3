"""`AuthenticatorSources`: the members of a union of authenticators, made from files, and again when these change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from oarlock.meta.peer import Peer
from oarlock.policy.authn.authenticator import Credentials, Identity
from oarlock.policy.authn.bad_files import CertificateBundleError, KeyFileError
from oarlock.policy.authn.tokens.token_file import TokenFileError
from oarlock.server.files.credentials import BadFile
from oarlock.server.files.reloaded import ReloadedFiles
from oarlock.server.options.option import ConfigError

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
REFUSALS = (BadFile, TokenFileError, CertificateBundleError, KeyFileError, ConfigError)
"""What a file that can't be used raises."""


class NobodyYet:
    """Authenticates no request, until the cluster names authorities."""

    waits = False

    def authenticate_cached(self, headers: Mapping[str, str], peer: Peer) -> Identity | None:
        return None

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        return None


class _Members(Protocol[T_contra]):
    """A union, whose members can be replaced."""

    def exchange(self, position: int, new: T_contra) -> None: ...


class AuthenticatorSources(Generic[T]):
    """The members of a union, each made from files, and made again when these change."""

    def __init__(self) -> None:
        self._made: list[tuple[tuple[Path, ...], Callable[[], T]]] = []

    def add(self, make: Callable[[], T], *files: Path) -> int:
        """Add a member; returns its position."""
        self._made.append((files, make))
        return len(self._made) - 1

    def members(self) -> list[T]:
        return [make() for _, make in self._made]

    def reloaded(self, union: Callable[[], _Members[T]]) -> list[ReloadedFiles]:
        def reload(position: int) -> None:
            union().exchange(position, self._made[position][1]())

        return [ReloadedFiles(files, partial(reload, n), REFUSALS) for n, (files, _) in enumerate(self._made) if files]
