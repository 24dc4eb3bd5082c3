"""Opens the backend of a URL: a table of schemes, and those that installed packages add.

A package adds a scheme by an entry point of the group ``oarlock.backends``: its name is the scheme, its object a
`BackendFactory`. Schemes of this table can't be replaced. A backend whose driver is an extra is imported by the
function that opens it.

Must not know: what is stored. See also: `memory`, `sqlite.backend`; `passwords`, which hides them in messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.net.url import UrlError, parse_database_url
from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.etcd.address import FORM as ETCD_FORM
from oarlock.storage.etcd.address import etcd_address
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.mysql.address import parse_address
from oarlock.storage.passwords import without_password
from oarlock.storage.postgres.url import parse_url as check_postgres_url
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.storage.sqlite.schema import check_place

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["FORMS", "GROUP", "BackendFactory", "check_storage", "check_url", "open_backend", "sqlite_path"]

GROUP = "oarlock.backends"
"""The group of entry points for backends of other packages."""


class BackendFactory(Protocol):
    """Makes the backend for a URL, not yet started; it opens and creates nothing.

    Without `create`, starting the backend fails when there is no store. Raises `StorageError` with a one-line message
    that hides passwords when the URL can't be used.
    """

    def __call__(self, url: str, clock: Clock, *, create: bool) -> Backend: ...


@dataclass(frozen=True, slots=True)
class _Scheme:
    """A scheme of URLs. `form` is an example for messages; `check` raises `StorageError`, and loads no driver."""

    form: str
    check: Callable[[str], object]
    open: BackendFactory


def open_backend(url: str, clock: Clock, *, create: bool = True) -> Backend:
    """The backend for `url`, not yet started. Without `create`, starting it fails when there is no store.

    Raises `StorageError` with a one-line message that shows the valid forms.
    """
    scheme = _SCHEMES.get(_scheme_of(url))
    if scheme is not None:
        scheme.check(url)
        return scheme.open(url, clock, create=create)
    return _open_foreign(_entry_point(url), url, clock, create)


def check_url(url: str) -> None:
    """Check the form of a `url` of ours, without connecting or loading a driver. Raises `StorageError`."""
    scheme = _SCHEMES.get(_scheme_of(url))
    if scheme is not None:
        scheme.check(url)


def check_storage(url: str, clock: Clock) -> None:
    """Check that there may be a store at `url`, without creating or connecting to anything.

    Raises `StorageError` with a one-line message.
    """
    open_backend(url, clock)
    path = sqlite_path(url)
    if path is not None:
        check_place(path, create=True)


def sqlite_path(url: str) -> Path | None:
    """The file of a ``sqlite://`` URL: relative after three slashes, absolute after four. None for another scheme."""
    if _scheme_of(url) != "sqlite":
        return None
    try:
        parts = parse_database_url(url)
    except UrlError as error:
        raise _unusable(url, error.reason) from None
    if parts.host:
        raise _unusable(url, "write three slashes for a relative path, four for an absolute")
    if parts.query or parts.fragment:
        raise _unusable(url, "nothing may follow the path; write ? as %3F and # as %23")
    path = unquote(parts.path)[1:]
    # Escapes that aren't UTF-8 become the replacement character, which no file of ours has in its name.
    if not path or path.endswith("/") or "\0" in path or "\ufffd" in path:
        raise _unusable(url, "name the file, for example sqlite:///oarlock.db")
    return Path(path)


def _check_memory(url: str) -> None:
    if url not in ("memory:", "memory://", "memory:///"):
        raise _unusable(url, "nothing may follow memory://")


def _open_memory(url: str, clock: Clock, *, create: bool) -> Backend:
    return MemoryBackend(clock)


def _open_sqlite(url: str, clock: Clock, *, create: bool) -> Backend:
    path = sqlite_path(url)
    assert path is not None
    return SqliteBackend(path, clock, create=create)


@contextmanager
def _needs_extra(url: str, extra: str) -> Iterator[None]:
    """Says what to install when a driver that the statement imports is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "oarlock":
            raise
        why = f"{error.name} is not installed: pip install 'oarlock[{extra}]'"
        raise _unusable(url, why) from None


def _open_etcd(url: str, clock: Clock, *, create: bool) -> Backend:
    with _needs_extra(url, "etcd"):
        from oarlock.storage.etcd.backend import EtcdBackend  # noqa: PLC0415 (loads grpc)
    return EtcdBackend(etcd_address(url), clock, create=create)


def _open_postgres(url: str, clock: Clock, *, create: bool) -> Backend:
    with _needs_extra(url, "postgres"):
        from oarlock.storage.postgres.backend import open_postgres  # noqa: PLC0415 (loads asyncpg)
    return open_postgres(url, create=create)


def _open_mysql(url: str, clock: Clock, *, create: bool) -> Backend:
    with _needs_extra(url, "mysql"):
        from oarlock.storage.mysql.backend import open_mysql  # noqa: PLC0415 (loads asyncmy)
    return open_mysql(url, create=create)


_POSTGRES = _Scheme("postgresql://user@host/database", check_postgres_url, _open_postgres)
_MYSQL = _Scheme("mysql://user@host/database", parse_address, _open_mysql)

_SCHEMES = {
    "sqlite": _Scheme("sqlite:///relative.db, sqlite:////absolute.db", sqlite_path, _open_sqlite),
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "memory": _Scheme("memory://", _check_memory, _open_memory),
    "etcd": _Scheme(ETCD_FORM, etcd_address, _open_etcd),
}


FORMS = ", ".join(dict.fromkeys(scheme.form for scheme in _SCHEMES.values()))
"""What URLs of stores look like, for messages and ``--help``."""


def _scheme_of(url: str) -> str:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", url)
    return match[1].lower() if match else ""


def _entry_point(url: str) -> EntryPoint:
    """The entry point for the scheme of `url`. Raises `StorageError` when there is none, or more than one."""
    from importlib.metadata import entry_points  # noqa: PLC0415 (only schemes of other packages need it)

    scheme = _scheme_of(url)
    points = tuple(entry_points(group=GROUP))
    matching = {(point.value, _package(point)): point for point in points if point.name.lower() == scheme}
    if not matching:
        foreign = sorted({f"{point.name.lower()}://" for point in points if point.name.lower() not in _SCHEMES})
        forms = [*dict.fromkeys(known.form for known in _SCHEMES.values()), *foreign]
        raise _unusable(url, f"give {', '.join(forms[:-1])} or {forms[-1]}")
    if len(matching) > 1:
        packages = " and ".join(sorted(package for _, package in matching))
        raise _unusable(url, f"{packages} both provide {scheme}://; uninstall one of them")
    return next(iter(matching.values()))


def _open_foreign(point: EntryPoint, url: str, clock: Clock, create: bool) -> Backend:
    """The backend of another package, whose errors become one line that names the package."""
    where = f"the entry point {point.name!r} of {_package(point)}"
    try:
        factory: BackendFactory = point.load()
    except Exception as error:
        raise _unusable(url, f"{where} can't be loaded: {_one_line(error)}") from error
    try:
        backend = factory(url, clock, create=create)
    except StorageError:
        raise
    except Exception as error:
        raise _unusable(url, f"{where} failed: {_one_line(error)}") from error
    if not hasattr(backend, "current_rev"):
        raise _unusable(url, f"{where} returned {type(backend).__name__}, which isn't a Backend")
    return backend


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _one_line(error: Exception) -> str:
    return without_password(" ".join(f"{type(error).__name__}: {error}".split()))


def _unusable(url: str, why: str) -> StorageError:
    return StorageError(f"cannot use {without_password(url)!r} as storage: {why}")
