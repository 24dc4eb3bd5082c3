"""`Url`: a place that is called, parsed once from text; whoever calls decides by its fields, never by the text.

The rules and the errors are those of Go's ``net/url``, since clients of Kubernetes know URLs by them: a scheme is lower
case whatever was written, and what has a control character or begins with a space is no URL.
See also: `trust`, the other half of a connection.
Source: Go's ``net/url``, ``path``; RFC 3986.
"""

from __future__ import annotations

import ipaddress
import re
import string
from dataclasses import field
from urllib.parse import quote as escape_component

from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote

_PORTS = {"http": 80, "https": 443}

_UNRESERVED = string.ascii_letters + string.digits + "-_.~"
_kept_in_path = frozenset((_UNRESERVED + "$&+,/:;=@").encode())
_valid_in_path = frozenset((_UNRESERVED + "$&+,/:;=@!'()*[]%").encode())
_kept_in_host = frozenset((_UNRESERVED + "!$&'()*+,;=:[]<>\"").encode())

_scheme = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL).fullmatch
_port = re.compile(r"(?::[0-9]*)?").fullmatch
_userinfo = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*").fullmatch
_escape = re.compile(rb"%([0-9A-Fa-f]{2})?")
_control = re.compile(r"[\x00-\x1f\x7f]").search


class UrlError(ValueError):
    """A text isn't a URL. The message quotes the text, as Go's does. `reason` doesn't: it may have a password."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"parse {quote(text)}: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL. `scheme` is lower case; `host` is with the port, as written, unescaped; `path` is escaped.

    `user` is None without an ``@``. `opaque` is what follows a scheme without a slash.
    """

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str = ""
    path: str = ""
    query: str = ""
    fragment: str = ""

    @property
    def tls(self) -> bool:
        """Whether this place is called over TLS."""
        return self.scheme == "https"

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        return _split(self.host)[0]

    @property
    def has_port(self) -> bool:
        """Whether a port is written."""
        return bool(_split(self.host)[1])

    @property
    def port(self) -> int:
        """The port that is written, else that of the scheme; 0 if it has none. A number above 65535 is no port."""
        text = _split(self.host)[1]
        return int(text[:9]) if text else _PORTS.get(self.scheme, 0)

    @property
    def host_and_port(self) -> str:
        """``host:port``, also where none was written."""
        return self.host if self.has_port else f"{self.host.removesuffix(':')}:{self.port}"

    @property
    def sent_host(self) -> str:
        """`host` as it goes over the wire: names in ASCII (RFC 5891). Raises `UrlError`."""
        if self.host.isascii():
            return self.host
        name, port = _split(self.host)
        try:
            return name.encode("idna").decode() + (f":{port}" if port else "")
        except UnicodeError:
            raise UrlError(self.origin, "invalid host: no name can be that") from None

    @property
    def origin(self) -> str:
        """``scheme://host``, with the port if one was written."""
        return f"{self.scheme}://{self.host}"

    @property
    def base(self) -> str:
        """What paths of requests are appended to: all but query and fragment, without a slash at the end."""
        user = "" if self.user is None else escape_component(self.user, safe="")
        password = "" if self.password is None else f":{escape_component(self.password, safe='')}"
        return f"{self.scheme}://{f'{user}{password}@' if user or password else ''}{self.host}{self.path.rstrip('/')}"

    @property
    def request_path(self) -> str:
        """The path and the query of a request, which begins with a slash."""
        return (self.path or "/") + (f"?{self.query}" if self.query else "")

    @property
    def callable(self) -> bool:
        """Whether HTTP can go there: scheme, host and a port that exists."""
        return self.scheme in _PORTS and bool(self.hostname) and 0 < self.port < 65536


def parse_url(text: str) -> Url:
    """Parse a URL. Raises `UrlError`."""
    rest, _, fragment = text.partition("#")
    try:
        url = _parsed(rest)
    except _UrlFault as fault:
        raise UrlError(rest, str(fault)) from None
    try:
        decoded = _unescaped(fragment)
    except _UrlFault as fault:
        raise UrlError(text, str(fault)) from None
    return Url(
        url.scheme, url.opaque, url.user, url.password, url.host, url.path, url.query, decoded.decode(errors="replace")
    )


def is_https(text: str) -> bool:
    """Whether `text` is a URL that is called over TLS."""
    try:
        return parse_url(text).tls
    except UrlError:
        return False


def parse_database_url(text: str) -> Url:
    """The URL of a database, whose `host` may be several, with commas between them, as the database understands them.

    A user and a password may have any character but those that end them. Raises `UrlError`.
    """
    rest, _, fragment = text.partition("#")
    try:
        scheme, rest, query = _begun(rest)
        if not rest.startswith("//"):
            return Url(scheme, "" if rest.startswith("/") else rest, path=rest[: rest.startswith("/") * len(rest)])
        authority, slash, path = rest[2:].partition("/")
        info, at, host = authority.rpartition("@")
        name, colon, password = info.partition(":")
        return Url(
            scheme,
            "",
            _unescaped(name).decode(errors="replace") if at else None,
            _unescaped(password).decode(errors="replace") if colon else None,
            host,
            _path(slash + path),
            query,
            fragment,
        )
    except _UrlFault as fault:
        raise UrlError(text, str(fault)) from None


def clean_path(escaped: str) -> str:
    """An escaped path as client-go sends it: absolute, no empty parts, no dots, no slash at the end.

    Raises `UrlError`.
    """
    try:
        decoded = _unescaped(escaped)
    except _UrlFault as fault:
        raise UrlError(escaped, str(fault)) from None
    parts: list[bytes] = []
    for part in decoded.split(b"/"):
        if part == b"..":
            del parts[-1:]
        elif part not in (b"", b"."):
            parts.append(part)
    return _escaped(b"/" + b"/".join(parts))


class _UrlFault(Exception):
    """What is wrong with a URL, without the URL."""


def _begun(text: str) -> tuple[str, str, str]:
    """The scheme, what follows it, and the query."""
    if _control(text):
        raise _UrlFault("net/url: invalid control character in URL")
    scheme, rest = "", text
    found = _scheme(text)
    if found is not None:
        scheme, rest = found[1].lower(), found[2]
    elif text.startswith(":"):
        raise _UrlFault("missing protocol scheme")
    rest, _, query = rest.partition("?")
    return scheme, rest, query


def _parsed(text: str) -> Url:
    scheme, rest, query = _begun(text)
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, opaque=rest, query=query)
        if ":" in rest.partition("/")[0]:
            raise _UrlFault("first path segment in URL cannot contain colon")
    user, password, host = None, None, ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        user, password, host = _authority(scheme, authority)
        rest = slash + path
    return Url(scheme, "", user, password, host, _path(rest), query)


def _path(text: str) -> str:
    """An escaped path, whatever of it was escaped."""
    decoded = _unescaped(text)
    return text if _valid_in_path.issuperset(_bytes(text)) else _escaped(decoded)


def _authority(scheme: str, text: str) -> tuple[str | None, str | None, str]:
    info, at, host = text.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return None, None, host
    if not _userinfo(info):
        raise _UrlFault("net/url: invalid userinfo")
    name, colon, password = info.partition(":")
    user = _unescaped(name).decode(errors="replace")
    return user, _unescaped(password).decode(errors="replace") if colon else None, host


def _host(scheme: str, text: str) -> str:
    bracket = text.rfind("[")
    if bracket > 0:
        raise _UrlFault("invalid IP-literal")
    if bracket == 0:
        return _literal(text)
    _, colon, port = text.partition(":")
    if colon and ":" in port and scheme not in _PORTS:
        port = port.rpartition(":")[2]  # a list of hosts, as those of databases
    if not _port(colon + port):
        raise _UrlFault(f"invalid port {quote(colon + port)} after host")
    return _host_name(text)


def _literal(text: str) -> str:
    """``[::1]:443``."""
    name, bracket, port = text[1:].rpartition("]")
    if not bracket:
        raise _UrlFault("missing ']' in host")
    if not _port(port):
        raise _UrlFault(f"invalid port {quote(port)} after host")
    address, percent, zone = name.partition("%25")
    address, zone = _host_name(address), _zone(zone)
    shown = f"{address}%{zone}" if percent else address
    try:
        ipaddress.IPv6Address(address)
        if percent and not zone:
            raise ValueError
    except ValueError:
        if _is_ipv4(address):
            raise _UrlFault("invalid IP-literal") from None
        raise _UrlFault(f"invalid host: ParseAddr({quote(shown)}): unable to parse IP") from None
    return f"[{shown}]{port}"


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _host_name(text: str) -> str:
    data = _bytes(text)
    for found in _escape.finditer(data):
        if found[1] is not None and found[1] != b"25" and found[1][0] < 0x38:  # an ASCII character needs no escape
            raise _UrlFault(f"invalid URL escape {quote(found[0].decode())}")
    decoded = _unescaped(text)
    _check_characters(data)
    return decoded.decode(errors="replace")


def _zone(text: str) -> str:
    data = _bytes(text)
    for found in _escape.finditer(data):
        if found[1] is not None and int(found[1], 16) not in _kept_in_host | {0x20, 0x25}:
            raise _UrlFault(f"invalid URL escape {quote(found[0].decode())}")
    decoded = _unescaped(text)
    _check_characters(data)
    return decoded.decode(errors="replace")


def _check_characters(data: bytes) -> None:
    for byte in data:
        if byte < 0x80 and byte not in _kept_in_host and byte != 0x25:
            raise _UrlFault(f"invalid character {quote(chr(byte))} in host name")


def _unescaped(text: str) -> bytes:
    data = _bytes(text)
    for found in _escape.finditer(data):
        if found[1] is None:
            shown = data[found.start() : found.start() + 3].decode(errors="replace")
            raise _UrlFault(f"invalid URL escape {quote(shown)}")
    return _escape.sub(lambda match: bytes([int(match[1], 16)]), data)


def _escaped(data: bytes) -> str:
    return "".join(chr(byte) if byte in _kept_in_path else f"%{byte:02X}" for byte in data)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _split(host: str) -> tuple[str, str]:
    """A host and the digits of its port."""
    name, colon, port = host.rpartition(":")
    if not colon or not _port(f":{port}"):
        name, port = host, ""
    return (name[1:-1] if name.startswith("[") and name.endswith("]") else name), port
