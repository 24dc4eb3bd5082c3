"""The URL of a store in PostgreSQL: as libpq takes it, and ``schema=``.

    postgresql://user:password@host:5432,other:5432/database?sslmode=verify-full&schema=oarlock

Must not know: drivers, which are loaded when a backend is made. See also: `driver`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import parse_qsl, quote, unquote, urlencode

from oarlock.meta.dataclass import dataclass
from oarlock.net.url import UrlError, parse_database_url
from oarlock.storage.backend import StorageError
from oarlock.storage.passwords import without_password

__all__ = ["DEFAULT_SCHEMA", "PostgresUrl", "parse_url"]

DEFAULT_SCHEMA = "oarlock"
DEFAULT_CONNECT_TIMEOUT_S = 5.0
DEFAULT_PORT = 5432

_HOST = re.compile(r"(\[[^\]]+\]|[^:\[\]]+)(?::(\d+))?\Z")

_DRIVERS = frozenset(
    {
        *("host", "port", "dbname", "user", "password", "passfile", "service", "application_name", "options"),
        *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "sslnegotiation"),
        *("ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname", "gsslib"),
    }
)
"""Parameters of libpq's that the driver takes as they are."""

_OURS = frozenset({"connect_timeout", "target_session_attrs", "schema"})

_WRITABLE = ("any", "primary", "read-write")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}\Z")


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """A URL's parts: `dsn` for the driver, and what is handled here. `name` is the URL as it may be shown.

    `hosts` are those that the URL names, with their ports; none if a service file or the environment names them.
    """

    name: str
    dsn: str
    schema: str
    connect_timeout_s: float
    hosts: tuple[tuple[str, int], ...] = ()
    any_primary: bool = False
    """Whether a primary is used that begins transactions as read only."""


def parse_url(url: str) -> PostgresUrl:
    """Raises `StorageError` with a one-line message for a parameter that isn't known or has no meaning here."""
    try:
        parts = parse_database_url(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except UrlError as error:
        raise _unusable(url, error.reason) from None
    except ValueError as error:
        raise _unusable(url, str(error)) from None
    if parts.fragment:
        raise _unusable(url, "nothing may follow #; write # as %23")
    given = dict(pairs)
    for name in given:
        if name not in _DRIVERS | _OURS:
            known = ", ".join(sorted(_DRIVERS | _OURS))
            raise _unusable(url, f"the parameter {name!r} is not known; known are {known}")
    for port in re.findall(r":([^:,\]]*)(?:,|$)", parts.host):
        if not port.isdigit() or not 0 < int(port) < 65536:
            raise _unusable(url, f"{port!r} isn't a port")
    schema = given.pop("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.match(schema):
        raise _unusable(url, f"schema={schema!r}: at most 48 of a-z, 0-9 and _, not beginning with a digit")
    attributes = given.pop("target_session_attrs", "read-write")
    if attributes not in _WRITABLE:
        raise _unusable(
            url, f"target_session_attrs={attributes}: the store is read and written on the primary; leave it out"
        )
    timeout = given.pop("connect_timeout", "")
    if timeout and not (timeout.isdigit() and int(timeout) > 0):
        raise _unusable(url, f"connect_timeout={timeout!r}: give seconds, from 1")
    given.setdefault("application_name", "oarlock")
    given["target_session_attrs"] = "primary" if attributes == "primary" else "read-write"
    dsn = f"{replace(parts, scheme='postgresql').base or '/'}?{urlencode(given, quote_via=quote)}"
    hosts = _hosts(parts.host) if parts.host else _hosts(given.get("host", ""), given.get("port", ""))
    seconds = float(timeout or DEFAULT_CONNECT_TIMEOUT_S)
    return PostgresUrl(without_password(url), dsn, schema, seconds, hosts, attributes == "primary")


def _hosts(listed: str, ports: str = "") -> tuple[tuple[str, int], ...]:
    """The hosts of a list as libpq takes it: ``a,b:5433,[::1]:5432``; a folder with a socket is one, too."""
    if not listed or not all(port.isdigit() for port in ports.split(",") if port):
        return ()
    others = ports.split(",")
    found = []
    for at, text in enumerate(listed.split(",")):
        match = _HOST.match(unquote(text))
        if match is None:
            return ()
        other = others[at] if len(others) > 1 and at < len(others) else others[0]
        found.append((match[1].strip("[]"), int(match[2] or other or DEFAULT_PORT)))
    return tuple(found)


def _unusable(url: str, why: str) -> StorageError:
    return StorageError(f"cannot use {without_password(url)!r} as storage: {why}")
