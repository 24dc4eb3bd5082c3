"""IP addresses, networks and URLs: ``ip``, ``cidr`` and ``url``.

An address has no zone and isn't IPv4-mapped IPv6; a network keeps its address as written.
See also: `library.kinds`. Source: Kubernetes' ip, cidr and url libraries; Go's net/netip and net/url.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import field
from typing import Any
from urllib.parse import unquote_plus

from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.schema.cel.problems import EvalError
from oarlock.schema.cel.values import no_overload

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class IP:
    """An address."""

    address: _Address
    cel_type = "net.IP"

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDR:
    """A network: an address and a prefix length."""

    address: _Address
    bits: int
    cel_type = "net.CIDR"

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    def network(self) -> int:
        return int(self.address) >> (self.address.max_prefixlen - self.bits)

    def holds(self, address: _Address) -> bool:
        if address.version != self.address.version:
            return False
        return int(address) >> (address.max_prefixlen - self.bits) == self.network()


@dataclass(frozen=True, slots=True)
class URL:
    """A parsed URL. `path` is as written; ``[]`` are part of `host`."""

    scheme: str
    host: str
    path: str
    query: str
    cel_type: str = field(default="kubernetes.URL", compare=False)


# addresses ----------------------------------------------------------------------------------------


def _why(text: str) -> str:
    """Go's error message for a text that isn't an address."""
    if ":" not in text and "." not in text:
        return "unable to parse IP"
    if "%" in text:
        return "zones are not allowed"
    if ":" not in text:
        return _why_v4(text)
    if ":::" in text:
        at = text[text.index(":::") + 2 :]
        return f"each colon-separated field must have at least one digit (at {quote(at)})"
    return "unexpected character" if re.search(r"[^0-9a-fA-F:.]", text) else "address string too short"


def _why_v4(text: str) -> str:
    fields = text.split(".")
    for part in fields[:4]:
        if not part:
            return "IPv4 field must have at least one digit"
        if not (part.isascii() and part.isdigit()):
            return "unexpected character"
        if len(part) > 1 and part[0] == "0":
            return "IPv4 field has octet with leading zero"
        if int(part[:6]) > 255:
            return "IPv4 field has value >255"
    return "IPv4 address too short" if len(fields) < 4 else "IPv4 address too long"


def _parse_address(text: str) -> _Address:
    """ValueError with Go's reason."""
    try:
        if len(text) > 64:
            raise ValueError(text)
        address = ipaddress.ip_address(text)
    except ValueError as error:
        reason = f"ParseAddr({quote(text)}): {_why(text)}"
        raise ValueError(f"IP Address {quote(text)} parse error during conversion from string: {reason}") from error
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise ValueError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise ValueError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return address


def _parse_cidr(text: str) -> CIDR:
    prefix = "network address parse error during conversion from string"
    head, slash, bits = text.rpartition("/")
    reason = ""
    if not slash:
        reason = "no '/'"
    elif not (bits.isascii() and bits.isdigit() and len(bits) <= 3) or (len(bits) > 1 and bits[0] == "0"):
        reason = f"bad bits after slash: {quote(bits)}"
    if reason:
        raise ValueError(f"{prefix}: {prefix}: netip.ParsePrefix({quote(text)}): {reason}")
    try:
        address = _parse_address(head)
    except ValueError as error:
        raise ValueError(f"{prefix}: {error}") from error
    if int(bits) > address.max_prefixlen:
        raise ValueError(f"{prefix}: {prefix}: netip.ParsePrefix({quote(text)}): prefix length out of range")
    return CIDR(address, int(bits))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise no_overload()
    return value


def _ip(value: Any) -> IP:
    if type(value) is CIDR:
        return IP(value.address)
    try:
        return IP(_parse_address(_text(value)))
    except ValueError as error:
        raise EvalError(str(error)) from error


def _cidr(value: Any) -> CIDR:
    try:
        return _parse_cidr(_text(value))
    except ValueError as error:
        raise EvalError(str(error)) from error


def _parses(parse: Callable[[str], Any]) -> Callable[[Any], bool]:
    def parses(value: Any) -> bool:
        try:
            parse(_text(value))
        except ValueError:
            return False
        return True

    return parses


def _of_ip(question: Callable[[_Address], Any]) -> Callable[[Any], Any]:
    def answer(value: Any) -> Any:
        if type(value) is not IP:
            raise no_overload()
        return question(value.address)

    return answer


def _link_local_multicast(address: _Address) -> bool:
    if address.version == 4:
        return int(address) >> 8 == 0xE00000
    return (int(address) >> 112) & 0xFF0F == 0xFF02


def _global_unicast(address: _Address) -> bool:
    if address.version == 4 and int(address) == 0xFFFFFFFF:
        return False
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special


def _network(value: Any) -> CIDR:
    if type(value) is not CIDR:
        raise no_overload()
    return value


def _masked(value: Any) -> CIDR:
    cidr = _network(value)
    shift = cidr.address.max_prefixlen - cidr.bits
    return CIDR(type(cidr.address)(cidr.network() << shift), cidr.bits)


def _contains_ip(value: Any, other: Any) -> bool:
    return _network(value).holds((other if type(other) is IP else _ip(other)).address)


def _contains_cidr(value: Any, other: Any) -> bool:
    outer, inner = _network(value), other if type(other) is CIDR else _cidr(other)
    return outer.holds(inner.address) and inner.bits >= outer.bits


# URLs ---------------------------------------------------------------------------------------------

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*").fullmatch
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]*(?:%25[^\]]*)?\]|[^\[\]:<>\"\\^`{|} %]*)(?::[0-9]*)?").fullmatch
_bad_escape = re.compile(r"%(?![0-9A-Fa-f]{2})").search
_CONTROL = re.compile(r"[\x00-\x1f\x7f]").search
_UNESCAPED_PATH = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~$&+,/:;=@!'()*[]%")


def _parse_url(text: str) -> URL:
    """Go's ``url.ParseRequestURI``: an absolute URL or an absolute path. ValueError for another text."""

    def wrong(why: str) -> ValueError:
        return ValueError(f"URL parse error during conversion from string: parse {quote(text)}: {why}")

    if _CONTROL(text) is not None:
        raise wrong("net/url: invalid control character in URL")
    if not text:
        raise wrong("empty url")
    scheme, rest = "", text
    head, colon, tail = text.partition(":")
    if colon and "/" not in head:
        if _SCHEME(head) is None:
            raise wrong("missing protocol scheme" if not head else "first path segment in URL cannot contain colon")
        scheme, rest = head.lower(), tail
    if not rest.startswith("/"):
        if not scheme:
            raise wrong("invalid URI for request")
        return URL(scheme, "", "", rest.partition("?")[2])
    rest, _, query = rest.partition("?")
    host = ""
    if scheme and rest.startswith("//") and not rest.startswith("///"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        host = authority.rpartition("@")[2]
        if _HOST(host) is None:
            raise wrong(f"invalid character or port in host {quote(host)}")
    if _bad_escape(rest) is not None:
        raise wrong("invalid URL escape")
    return URL(scheme, host, rest, query)


def _url(value: Any) -> URL:
    try:
        return _parse_url(_text(value))
    except ValueError as error:
        raise EvalError(str(error)) from error


def _of_url(question: Callable[[URL], Any]) -> Callable[[Any], Any]:
    def answer(value: Any) -> Any:
        if type(value) is not URL:
            raise no_overload()
        return question(value)

    return answer


def _hostname(url: URL) -> str:
    if url.host.startswith("["):
        return url.host[1:].partition("]")[0]
    return url.host.partition(":")[0]


def _port(url: URL) -> str:
    return url.host.rpartition("]")[2].partition(":")[2]


def _escaped_path(url: URL) -> str:
    return "".join(
        [char if char in _UNESCAPED_PATH else "".join(f"%{byte:02X}" for byte in char.encode()) for char in url.path]
    )


def _query(url: URL) -> dict[str, list[str]]:
    values_by_key: dict[str, list[str]] = {}
    for pair in url.query.partition("#")[0].split("&"):
        if not pair or ";" in pair or _bad_escape(pair) is not None:
            continue
        key, _, value = pair.partition("=")
        values_by_key.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return values_by_key


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ip": _ip,
    "CIDR.ip": _ip,
    "isIP": _parses(_parse_address),
    "ip.isCanonical": lambda text: str(_ip(text)) == text,
    "family": _of_ip(lambda address: address.version),
    "isUnspecified": _of_ip(lambda address: address.is_unspecified),
    "isLoopback": _of_ip(lambda address: address.is_loopback),
    "isLinkLocalMulticast": _of_ip(_link_local_multicast),
    "isLinkLocalUnicast": _of_ip(lambda address: address.is_link_local),
    "isGlobalUnicast": _of_ip(_global_unicast),
    "cidr": _cidr,
    "isCIDR": _parses(_parse_cidr),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "masked": _masked,
    "prefixLength": lambda value: _network(value).bits,
    "url": _url,
    "isURL": _parses(_parse_url),
    "getScheme": _of_url(lambda url: url.scheme),
    "getHost": _of_url(lambda url: url.host),
    "getHostname": _of_url(_hostname),
    "getPort": _of_url(_port),
    "getEscapedPath": _of_url(_escaped_path),
    "getQuery": _of_url(_query),
}
