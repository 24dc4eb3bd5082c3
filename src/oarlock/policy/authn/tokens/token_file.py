"""Static tokens from a CSV file, in kube-apiserver's format: ``token,user,uid,"group1,group2"``.

The file is read once. Tokens are looked up by their SHA-256 digests, so that the time of a lookup doesn't reveal a
token. See also: `tokens`, which finds the token in a request.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Sequence

from oarlock.meta.context import User
from oarlock.policy.authn.authenticator import Identity, authenticated
from oarlock.policy.authn.tokens.bearer_tokens import TokenAnswer


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


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


class TokenFile:
    """Identifies the tokens of a fixed set. They are good for `audiences`, the server's own."""

    waits = False

    def __init__(self, tokens: Iterable[tuple[str, User]], audiences: Sequence[str] = ()) -> None:
        self._users = {_digest(token): authenticated(user) for token, user in tokens}
        self._audiences = tuple(audiences)

    async def identify(self, token: str, audiences: Sequence[str]) -> TokenAnswer | None:
        user = self._users.get(_digest(token))
        fitting = tuple(audience for audience in audiences if audience in self._audiences)
        if user is None or (self._audiences and audiences and not fitting):
            return None
        return TokenAnswer(Identity(user, fitting or None))
