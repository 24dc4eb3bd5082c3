"""`EtcdAddress`: where an etcd is and how to speak to it, as a URL says it.

    etcd://host:2379,host2:2379/prefix?ca=ca.pem&cert=client.pem&key=client-key.pem&user=oarlock&password-file=secret

Loads no driver and opens no file. See also: `client`, which connects.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from oarlock.meta.dataclass import dataclass
from oarlock.net.url import UrlError, parse_database_url, parse_url
from oarlock.storage.backend import StorageError
from oarlock.storage.passwords import without_password

__all__ = ["DEFAULT_PREFIX", "FORM", "EtcdAddress", "etcd_address", "etcd_url"]

FORM = "etcd://host:2379,host2:2379/prefix?ca=ca.pem"
DEFAULT_PREFIX = "/registry"
PORT = 2379

_FILES: Final = ("ca", "cert", "key", "password-file")
_TEXTS: Final = ("user", "password")
_SWITCHES: Final = ("tls", "insecure")


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """The members of a cluster, and the prefix of the store's keys, which doesn't end with a slash.

    Without `tls` the connection is plain. With it, and without `ca`, the system's authorities are trusted.
    """

    hosts: tuple[str, ...]
    prefix: str
    tls: bool
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    user: str = ""
    password: str = ""
    password_file: Path | None = None

    def __repr__(self) -> str:
        return f"EtcdAddress({','.join(self.hosts)}{self.prefix})"


def etcd_url(servers: Sequence[str], prefix: str, files: dict[str, Path | None]) -> str:
    """The URL for servers as kube-apiserver's ``--etcd-servers`` has them: ``https://host:2379``.

    `files` are by parameter: ``ca``, ``cert``, ``key``. Raises ValueError with a short text.
    """
    schemes = set()
    hosts = []
    for server in servers:
        if "@" in server:
            raise ValueError("a user and password can't be in a server; use --storage=etcd://user@host/… for that")
        try:
            url = parse_url(server if "://" in server else f"http://{server}")
        except UrlError as error:
            raise ValueError(f"{server!r} is not of the form https://host:2379: {error.reason}") from None
        if url.scheme not in ("http", "https") or not url.host or url.path.strip("/") or url.query:
            raise ValueError(f"{server!r} is not of the form https://host:2379")
        schemes.add(url.scheme)
        hosts.append(url.host)
    if len(schemes) > 1:
        raise ValueError("some servers are http:// and some https://")
    secure = schemes == {"https"}
    if not secure and any(files.values()):
        raise ValueError("files for TLS are of no use with http:// servers")
    settings = [f"{name}={quote(str(path), safe='/')}" for name, path in files.items() if path is not None]
    settings += (["tls=true"] if not settings else []) if secure else ["insecure=true"]
    return f"etcd://{','.join(hosts)}/{quote(prefix.strip('/'), safe='/')}?{'&'.join(settings)}"


def etcd_address(url: str) -> EtcdAddress:
    """The address that `url` says. Raises `StorageError` with a one-line message that hides passwords."""
    try:
        return _parsed(url)
    except ValueError as error:
        shown = without_password(url)
        raise StorageError(f"cannot use {shown!r} as storage: {error}; the form is {FORM}") from None


def _parsed(url: str) -> EtcdAddress:
    if "://" not in url:
        raise ValueError("two slashes follow the colon")
    try:
        parts = parse_database_url(url.replace("#", "%23"))
    except UrlError:  # whose text may have a password
        raise ValueError("it isn't a URL") from None
    hosts = tuple(_host(host) for host in parts.host.split(","))
    settings = _settings(parts.query)
    if parts.user is not None:
        settings.setdefault("user", parts.user)
        if parts.password is not None:
            settings.setdefault("password", parts.password)
    _check_together(settings)
    tls = _tls(settings, hosts)
    return EtcdAddress(
        hosts,
        _prefix(unquote(parts.path)),
        tls,
        ca=_path(settings, "ca"),
        cert=_path(settings, "cert"),
        key=_path(settings, "key"),
        user=settings.get("user", ""),
        password=settings.get("password", ""),
        password_file=_path(settings, "password-file"),
    )


def _path(settings: dict[str, str], name: str) -> Path | None:
    return Path(settings[name]) if name in settings else None


def _host(text: str) -> str:
    try:
        parts = parse_url(f"//{text}")
        name, port = parts.hostname, parts.port if parts.has_port else PORT
    except UrlError:
        name, port = "", 0
    if not name or not 0 < port < 65536 or any(character in "/?" for character in text):
        raise ValueError("name the host of each member, and a port between 1 and 65535")
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _settings(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=50) if query else []
    known = (*_FILES, *_TEXTS, *_SWITCHES)
    for name, value in pairs:
        if name not in known:
            raise ValueError(f"unknown parameter {name!r}: write one of {', '.join(known)}")
        if not value:
            raise ValueError(f"{name} is empty")
        if name in _SWITCHES and value not in ("true", "false"):
            raise ValueError(f"{name} is true or false")
    settings = dict(pairs)
    if len(settings) < len(pairs):
        raise ValueError("a parameter is given twice")
    return settings


def _check_together(settings: dict[str, str]) -> None:
    if ("cert" in settings) != ("key" in settings):
        raise ValueError("cert and key belong together")
    if "password" in settings and "password-file" in settings:
        raise ValueError("give password or password-file")
    has_password = "password" in settings or "password-file" in settings
    if ("user" in settings) != has_password:
        raise ValueError("user and password belong together")


def _tls(settings: dict[str, str], hosts: tuple[str, ...]) -> bool:
    secure = bool({"ca", "cert"} & settings.keys()) or settings.get("tls") == "true"
    if settings.get("insecure") == "true":
        if secure:
            raise ValueError("insecure=true is without TLS, and ca, cert and tls are for TLS")
        return False
    if not secure and (settings.get("tls") == "false" or not all(map(_is_loopback, hosts))):
        raise ValueError("write ca=FILE or tls=true for TLS, or insecure=true for an unencrypted connection")
    return secure


def _is_loopback(host: str) -> bool:
    name = parse_url(f"//{host}").hostname
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _prefix(path: str) -> str:
    prefix = path.rstrip("/") or DEFAULT_PREFIX
    if "//" in prefix or any(character < " " or character in "\x7f\ufffd" for character in prefix):
        raise ValueError("the path is the prefix of the keys, such as /registry, without empty parts")
    return prefix
