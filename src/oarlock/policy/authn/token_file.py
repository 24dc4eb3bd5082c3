"""Static tokens from a CSV file, in kube-apiserver's format: ``token,user,uid,"group1,group2"``.

The file is read once. Tokens are looked up by their SHA-256 digests, so that the time of a lookup doesn't reveal a
token. See also: `bearer`, which finds the token in a request.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable

from oarlock.meta.context import User
from oarlock.meta.memo import Memo
from oarlock.policy.authn.authenticator import BadCredentials, Credentials, Identity, authenticated
from oarlock.policy.authn.bearer import bearer_token, subprotocol_token

__all__ = ["TokenFile", "TokenFileError", "parse_token_file"]

HEADERS_BYTES = 1024 * 1024


class TokenFileError(ValueError):
    """The token file can't be used; the text names file and line and says what is expected."""


def parse_token_file(data: bytes, name: str) -> list[tuple[str, User]]:
    """The tokens and their users, in order. `name` is the file's, for errors. Raises `TokenFileError`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TokenFileError(f"{name}, line {line}: not valid UTF-8") from None
    users: list[tuple[str, User]] = []
    lines: dict[str, int] = {}
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if not row:
                continue
            token, user = _user(row, f"{name}, line {reader.line_num}")
            if token in lines:
                raise TokenFileError(f"{name}, line {reader.line_num}: the token of line {lines[token]} is given again")
            users.append((token, user))
            lines[token] = reader.line_num
    except csv.Error as error:
        where = f"{name}, line {reader.line_num}"
        raise TokenFileError(f'{where}: {error}, where token,user,uid[,"group1,group2"] are expected') from None
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


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


class TokenFile:
    """Authenticates the bearer tokens of a fixed set."""

    waits = False

    def __init__(self, tokens: Iterable[tuple[str, User]]) -> None:
        self._identities = {_digest(token.encode()): Identity(authenticated(user)) for token, user in tokens}
        # Cache of whole headers that were valid: an attacker's guess is never in here, and finding one by timing
        # would first need a collision of Python's keyed string hash.
        self._by_header: Memo[str, Identity] = Memo(HEADERS_BYTES, entry_bytes=256)

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        header = credentials.headers.get("authorization")  # of several lines the first counts, as in Kubernetes
        if header is None:
            token = subprotocol_token(credentials)
            return None if token is None else self._find(token.encode())
        identity = self._by_header.get(header)
        if identity is not None:
            return identity
        token = bearer_token(header, credentials.notes)
        if token is None:
            return None
        identity = self._find(token.encode("latin-1", "replace"))
        self._by_header.put(header, identity, len(header))
        return identity

    def _find(self, token: bytes) -> Identity:
        identity = self._identities.get(_digest(token))
        if identity is None:
            raise BadCredentials("invalid bearer token")
        return identity
