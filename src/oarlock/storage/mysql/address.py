"""`MysqlAddress`: what a ``mysql://`` or ``mariadb://`` URL says.

    mysql://user:password@host[:port][,host[:port]…]/database?ssl-ca=ca.pem

Several hosts are tried in order, and the first that may be written to is used. The names of parameters are those of
MySQL's own programs. Must not know: the driver. See also: `connection`.
"""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from oarlock.meta.dataclass import dataclass
from oarlock.net.trust import trusting
from oarlock.net.url import UrlError, parse_database_url, parse_url
from oarlock.storage.backend import StorageError
from oarlock.storage.passwords import without_password

__all__ = ["MysqlAddress", "MysqlHost", "parse_address"]

_FORM = "mysql://user:password@host[:3306]/database"
_PARAMETERS = ("password-file", "ssl-ca", "ssl-cert", "ssl-key", "ssl-mode")
_MODES = ("DISABLED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PORT = 3306


@dataclass(frozen=True, slots=True)
class MysqlHost:
    """A server of the address."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class MysqlAddress:
    """Where a store is, and how its servers are spoken to. `shown` is the URL without password, for messages."""

    shown: str
    hosts: tuple[MysqlHost, ...]
    user: str
    database: str
    plain_password: str
    password_file: Path | None
    ssl_mode: str
    ssl_ca: str
    ssl_cert: str
    ssl_key: str

    def password(self) -> bytes:
        """The password as it is now: a file may be exchanged while servers run."""
        if self.password_file is None:
            return self.plain_password.encode()
        try:
            return self.password_file.read_bytes().rstrip(b"\r\n")
        except OSError as error:
            raise StorageError(f"cannot read password-file {self.password_file}: {error.strerror}") from None

    def tls(self, host: MysqlHost) -> ssl.SSLContext | None:
        """The context for connections to `host`; None for those without TLS."""
        mode = self.ssl_mode or self._default_mode(host)
        if mode == "DISABLED":
            return None
        try:
            context = trusting(file=self.ssl_ca)
            context.check_hostname = mode == "VERIFY_IDENTITY"
            context.verify_mode = ssl.CERT_NONE if mode == "REQUIRED" else ssl.CERT_REQUIRED
            if self.ssl_cert:
                context.load_cert_chain(self.ssl_cert, self.ssl_key or None)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise StorageError(f"cannot use the TLS files of {self.shown!r}: {why}") from None
        return context

    def _default_mode(self, host: MysqlHost) -> str:
        if self.ssl_ca:
            return "VERIFY_IDENTITY"
        return "DISABLED" if host.name in _LOOPBACK and not self.ssl_cert else "REQUIRED"


def parse_address(url: str) -> MysqlAddress:
    """The address of a URL. Raises `StorageError` with one line that hides the password."""
    wrong = partial(_wrong, without_password(url))
    try:
        parts = parse_database_url(url)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except UrlError as error:
        raise wrong(error.reason) from None
    except ValueError as error:
        raise wrong(str(error)) from None
    user, password = parts.user, parts.password or ""
    database = unquote(parts.path)[1:]
    unknown = sorted(set(parameters) - set(_PARAMETERS))
    mode = parameters.get("ssl-mode", "").upper()
    if not user or not parts.host or not database or "/" in database or parts.fragment:
        raise wrong(f"write {_FORM}")
    if unknown:
        raise wrong(f"unknown parameter {unknown[0]!r}: write one of {', '.join(_PARAMETERS)}")
    if mode and mode not in _MODES:
        raise wrong(f"ssl-mode is one of {', '.join(_MODES)}")
    if mode in ("VERIFY_CA", "VERIFY_IDENTITY") and not parameters.get("ssl-ca"):
        raise wrong(f"ssl-mode={mode} needs ssl-ca, the file of the authority that signed the server's certificate")
    if parameters.get("ssl-key") and not parameters.get("ssl-cert"):
        raise wrong("ssl-key needs ssl-cert")
    if password and "password-file" in parameters:
        raise wrong("give a password or a password-file, not both")
    try:
        hosts = tuple([_host(text) for text in parts.host.split(",")])
    except ValueError as error:
        raise wrong(str(error)) from None
    password_file = parameters.get("password-file")
    return MysqlAddress(
        shown=without_password(url),
        hosts=hosts,
        user=user,
        database=database,
        plain_password=password,
        password_file=Path(password_file) if password_file else None,
        ssl_mode=mode,
        ssl_ca=parameters.get("ssl-ca", ""),
        ssl_cert=parameters.get("ssl-cert", ""),
        ssl_key=parameters.get("ssl-key", ""),
    )


def _host(text: str) -> MysqlHost:
    try:
        parts = parse_url(f"//{text}")  # which knows [::1]:3306
    except UrlError as error:
        raise ValueError(f"{text!r} isn't a host and port: {error.reason}") from None
    port = parts.port if parts.has_port else _PORT
    if not parts.hostname:
        raise ValueError(f"{text!r} isn't a host")
    if not 0 < port < 65536:
        raise ValueError(f"the port of {text!r} must be a number from 1 to 65535")
    return MysqlHost(parts.hostname, port)


def _wrong(shown: str, why: str) -> StorageError:
    return StorageError(f"cannot use {shown!r} as storage: {why}")
