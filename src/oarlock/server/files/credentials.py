"""Static tokens of a server: those of a file, or one that it makes for its administrator.

A server that no tokens are given to generates one, readable by its owner only, and keeps it in the data directory.
Must not know: requests. See also: `identities`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from oarlock.meta.context import User
from oarlock.policy.authn.tokens.token_file import parse_token_file
from oarlock.server.config import ServerConfig

LOCK_TIMEOUT_S = 10.0
_RETRY_INTERVAL_S = 0.01


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`, which must exist, against all processes and threads.

    Must not be nested. Raises OSError if the directory can't be opened, and after ten seconds if another process holds
    the lock. On a file system without locks nothing is locked.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                why = f"another process has been making files in it for {LOCK_TIMEOUT_S:g} s: see if it is stopped"
                raise TimeoutError(errno.ETIMEDOUT, why, str(folder))
            time.sleep(_RETRY_INTERVAL_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # network file systems may not support locks; two first starts at once are then a race
    return True


def write_file(file: Path, content: bytes, mode: int) -> None:
    """Write or replace a file atomically, and sync it to disk. Hold the lock of its directory.

    Others see the old content or the new. A temporary file left by a crash is overwritten by the next call. Raises
    OSError.
    """
    temporary = file.with_name(f".{file.name}.new")
    temporary.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, file)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


ADMIN = User("admin", uid="admin", groups=("system:masters",))
TOKEN_BYTES = 32


class BadFile(Exception):
    """A file given by the user can't be read or written. The text names it and says why."""


def first_token(tokens: Sequence[tuple[str, User]]) -> tuple[str, User]:
    """An administrator's token if there is one, else the first."""
    return next(
        (token for token in tokens if "system:masters" in token[1].groups), tokens[0] if tokens else ("", ADMIN)
    )


def tokens_of(config: ServerConfig) -> list[tuple[str, User]]:
    """The static tokens of a server: those of its file, or the administrator's, made if there is none yet.

    Raises `BadFile`, `TokenFileError`.
    """
    file = config.token_auth_file
    if file is None:
        return [(_admin_token(config.admin_token), ADMIN)]
    tokens = parse_token_file(read_file(file), str(file))
    if not tokens and config.client_ca_file is None and config.authentication_kubeconfig is None:
        raise BadFile(
            f"{file}: it contains no token, so no client could authenticate: write one, or set "
            "--client-ca-file or --authentication-kubeconfig"
        )
    return tokens


def _admin_token(file: Path) -> str:
    """The token in `file`, generated if there is none. All servers that start at once get the same."""
    try:
        token = _token_in(file)
        if token is None:
            with locked(file.parent):
                token = _token_in(file)
                if token is None:
                    token = secrets.token_urlsafe(TOKEN_BYTES)
                    write_file(file, f"{token}\n".encode(), 0o600)
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error
    return token


def _token_in(file: Path) -> str | None:
    """The token in `file`, None if there is no such file."""
    try:
        token = file.read_text("ascii").strip()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        token = ""
    if len(token) < TOKEN_BYTES or not token.isprintable() or " " in token:
        raise BadFile(f"{file}: it contains no token: remove the file, and the server generates a new one")
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)
    return token


def trusted_by_clients(certificate: Path) -> bytes | None:
    """The certificate in a serving certificate's file that clients must trust, in PEM: its root if it has one."""
    # Imported here, because they are large, and a server that made its certificate knows.
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 (see above)

    from oarlock.policy.authn.certificates import load_bundle  # noqa: PLC0415 (see above)

    last = load_bundle(read_file(certificate), str(certificate))[-1]
    return last.public_bytes(Encoding.PEM) if last.issuer == last.subject else None


def read_file(file: Path) -> bytes:
    """The content of a file that the user named. Raises `BadFile`."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error
