"""Static tokens from a CSV file, in kube-apiserver's format: ``token,user,uid,"group1,group2"``.

The file is read once. Tokens are kept as SHA-256 digests, so neither the memory of the process nor the time a
lookup takes tells a token. Next: `bearer`, which finds the token in a request.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping

from oarlock.meta.context import User
from oarlock.policy.authn.authenticator import BadCredentials, Credentials, authenticated
from oarlock.policy.authn.bearer import bearer_token

__all__ = ["TokenFileError", "Tokens", "digest", "parse_token_file"]

HEADERS_KEPT = 1024


class TokenFileError(ValueError):
    """The token file can't be used; the text names file and line and says what is expected."""


def digest(token: bytes) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token).digest()


def parse_token_file(data: bytes, name: str) -> dict[bytes, User]:
    """The users by the digest of their token. `name` is the file's, for errors. Raises `TokenFileError`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TokenFileError(f"{name}, line {line}: not valid UTF-8") from None
    users: dict[bytes, User] = {}
    lines: dict[bytes, int] = {}
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if not row:
                continue
            token, user = _user(row, f"{name}, line {reader.line_num}")
            key = digest(token.encode())
            if key in users:
                raise TokenFileError(f"{name}, line {reader.line_num}: the token of line {lines[key]} is given again")
            users[key] = authenticated(user)
            lines[key] = reader.line_num
    except csv.Error as error:
        raise TokenFileError(f"{name}, line {reader.line_num}: {error}") from None
    return users


def _user(row: list[str], where: str) -> tuple[str, User]:
    if len(row) < 3:
        raise TokenFileError(f'{where}: {len(row)} columns where token,user,uid[,"group1,group2"] are expected')
    token, name, uid = row[:3]
    if not token or not name:
        raise TokenFileError(f"{where}: the {'user' if token else 'token'} is empty")
    if any(c.isspace() for c in token):
        raise TokenFileError(f"{where}: the token contains white space, which no client could send")
    groups = tuple(g for g in (part.strip() for part in row[3].split(",")) if g) if len(row) > 3 else ()
    return token, User(name, uid, groups)


class Tokens:
    """Authenticates bearer tokens of a fixed set. `users` are by the digest of the token."""

    def __init__(self, users: Mapping[bytes, User]) -> None:
        self._users = dict(users)
        # Whole headers that were found good: an attacker's guess is never in here, and finding one by timing
        # would first need a collision of Python's keyed string hash.
        self._seen: dict[str, User] = {}

    @classmethod
    def of(cls, tokens: Iterable[tuple[str, User]]) -> Tokens:
        """Tokens given as text."""
        return cls({digest(token.encode()): authenticated(user) for token, user in tokens})

    async def authenticate(self, credentials: Credentials) -> User | None:
        header = credentials.headers.get("authorization")
        if header is None:
            return None
        user = self._seen.get(header)
        if user is not None:
            return user
        token = bearer_token(header, credentials.notes)
        if token is None:
            return None
        user = self._users.get(digest(token.encode("latin-1", "replace")))
        if user is None:
            raise BadCredentials("invalid bearer token")
        if len(self._seen) >= HEADERS_KEPT:
            self._seen.clear()
        self._seen[header] = user
        return user
