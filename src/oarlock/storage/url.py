"""Opens the backend of a URL: ``memory://``, ``sqlite:///relative.db``, ``sqlite:////absolute.db``.

Must not know: what is stored. See also: `memory`, `sqlite.backend`.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from oarlock.meta.context import Clock
from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.storage.sqlite.schema import check_place

__all__ = ["check_storage", "open_backend", "sqlite_path", "without_password"]

_password = re.compile(r"(://[^\s:@/]*):\S*@")  # hides too much rather than too little
_KNOWN = "memory://, sqlite:///relative.db or sqlite:////absolute.db"


def open_backend(url: str, clock: Clock, *, create: bool = True) -> Backend:
    """The backend for `url`, not yet started. Without `create`, starting it fails when there is no store.

    Raises `StorageError` with a one-line message that shows the valid forms.
    """
    if url in ("memory:", "memory://", "memory:///"):
        return MemoryBackend(clock)
    path = sqlite_path(url)
    if path is None:
        raise StorageError(f"cannot use {without_password(url)!r} as storage: give {_KNOWN}")
    return SqliteBackend(path, clock, create=create)


def check_storage(url: str) -> None:
    """Check that there is a store at `url`, or that one could be created, without creating anything.

    Raises `StorageError` with a one-line message.
    """
    path = sqlite_path(url)
    if path is not None:
        check_place(path, create=True)


def sqlite_path(url: str) -> Path | None:
    """The file of a ``sqlite://`` URL: relative after three slashes, absolute after four. None for another scheme."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise StorageError(f"cannot use {without_password(url)!r} as storage: {error}") from None
    if parts.scheme != "sqlite":
        return None
    if parts.netloc:
        shown = without_password(url)
        raise StorageError(
            f"cannot use {shown!r} as storage: write three slashes for a relative path, four for an absolute"
        )
    if parts.query or parts.fragment:
        raise StorageError(
            f"cannot use {without_password(url)!r} as storage: nothing may follow the path; write ? as %3F and # as %23"
        )
    path = unquote(parts.path)[1:]
    # Escapes that aren't UTF-8 become the replacement character, which no file of ours has in its name.
    if not path or path.endswith("/") or "\0" in path or "\ufffd" in path:
        raise StorageError(
            f"cannot use {without_password(url)!r} as storage: name the file, for example sqlite:///oarlock.db"
        )
    return Path(path)


def without_password(text: str) -> str:
    """`text` as it may be shown: ``postgres://user:***@host/db`` for each URL in it."""
    return _password.sub(r"\1:***@", text)
