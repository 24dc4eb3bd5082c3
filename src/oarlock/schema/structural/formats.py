"""String formats of schemas: a check for each format that custom resources validate.

Other formats are documentation and aren't checked.
Must not know: schemas, wording. Source: the formats CustomResourceDefinitions support (go-openapi strfmt), RFC 3339.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date

from oarlock.meta.go.gobase64 import is_base64
from oarlock.meta.names import dns1123_label, dns1123_subdomain
from oarlock.meta.times import TimeError, parse_rfc3339

Checker = Callable[[str], bool]

_LONG = 4096
"""Longer texts are in none of the formats that are checked by expressions, whose time is not linear for sure."""


def checker(name: str) -> Checker | None:
    """The check for format `name`; None for a format that isn't checked.

    Dashes are ignored: ``date-time`` equals ``datetime``, except in Kubernetes' own formats.
    """
    return _CHECKERS.get(name) or _CHECKERS.get(name.replace("-", ""))


def _matching(pattern: str, flags: re.RegexFlag = re.ASCII) -> Checker:
    match = re.compile(pattern, flags).fullmatch
    return lambda text: len(text) <= _LONG and match(text) is not None


def _is_date(text: str) -> bool:
    if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    if len(text) > 64:
        return False
    try:
        parse_rfc3339(text)
    except TimeError:
        return False
    return True


_is_duration_text = re.compile(
    r"[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+|[-+]?0|"
    r"[0-9]+ ?(ns|nano|nanosecond|us|µs|micro|microsecond|ms|milli|millisecond|s|sec|second|m|min|minute|"
    r"h|hr|hour|d|day|w|wk|week)s?"
).fullmatch


def _is_duration(text: str) -> bool:
    return len(text) <= 64 and _is_duration_text(text) is not None


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        return ":" in text and "%" not in text and bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit() or (len(bits) > 1 and bits[0] == "0"):
        return False
    return (_is_ipv4(address) and int(bits[:4]) <= 32) or (_is_ipv6(address) and int(bits[:4]) <= 128)


def _is_byte(text: str) -> bool:
    return "\n" not in text and "\r" not in text and is_base64(text)


_is_host_label = re.compile("[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?").fullmatch


def _is_hostname(text: str) -> bool:
    labels = text.removesuffix(".").split(".")
    return len(text) <= 255 and all(_is_host_label(label) for label in labels)


def _is_email(text: str) -> bool:
    local, at, domain = text.rpartition("@")
    if not at or not local or not domain or len(text) > 320 or any(c.isspace() or ord(c) < 32 for c in text):
        return False
    quoted = len(local) > 2 and local[0] == local[-1] == '"'
    if not quoted and re.fullmatch(r"[^\s()<>\[\]:;@\\,\".]+(\.[^\s()<>\[\]:;@\\,\".]+)*", local) is None:
        return False
    return _is_hostname(domain) or (domain[0] == "[" and domain[-1] == "]")


def _is_uri(text: str) -> bool:
    if len(text) > 65536 or any(ord(c) < 33 or ord(c) == 127 for c in text):
        return False
    if text.startswith("/"):
        return _escapes_are_sound(text)
    return re.match("[a-zA-Z][a-zA-Z0-9+.-]*:.", text) is not None and _escapes_are_sound(text)


def _escapes_are_sound(text: str) -> bool:
    return re.search("%(?![0-9a-fA-F]{2})", text) is None


def _digits(text: str) -> str:
    return text.replace("-", "").replace(" ", "")


def _is_isbn10(text: str) -> bool:
    digits = _digits(text)
    if re.fullmatch("[0-9]{9}[0-9X]", digits) is None:
        return False
    values = [10 if c == "X" else int(c) for c in digits]
    return sum((10 - i) * value for i, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = _digits(text)
    if re.fullmatch("[0-9]{13}", digits) is None:
        return False
    return sum(int(c) * (3 if i % 2 else 1) for i, c in enumerate(digits)) % 10 == 0


_CARD = re.compile(
    "4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(?:222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|"
    "6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14}"
).fullmatch


def _is_credit_card(text: str) -> bool:
    digits = "".join(c for c in text if c in "0123456789")
    if len(text) > 64 or _CARD(digits) is None:
        return False
    total = 0
    for i, c in enumerate(reversed(digits)):
        value = int(c) * (2 if i % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


_OCTET = "[0-9a-fA-F]{2}"
_HEX8 = "[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}"
_BYTE = "([01]?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])"

_CHECKERS: dict[str, Checker] = {
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _matching(
        rf"({_OCTET}[:-]){{5}}{_OCTET}|({_OCTET}[:-]){{7}}{_OCTET}|({_OCTET}{_OCTET}\.){{2,3}}{_OCTET}{_OCTET}"
    ),
    "hostname": _is_hostname,
    "email": _is_email,
    "uri": _is_uri,
    "byte": _is_byte,
    "password": lambda text: True,
    "uuid": _matching(f"{_HEX8}-?[0-9a-fA-F]{{4}}-?[0-9a-fA-F]{{4}}-?[0-9a-fA-F]{{12}}"),
    "uuid3": _matching(f"{_HEX8}-?3[0-9a-fA-F]{{3}}-?[0-9a-fA-F]{{4}}-?[0-9a-fA-F]{{12}}"),
    "uuid4": _matching(f"{_HEX8}-?4[0-9a-fA-F]{{3}}-?[89abAB][0-9a-fA-F]{{3}}-?[0-9a-fA-F]{{12}}"),
    "uuid5": _matching(f"{_HEX8}-?5[0-9a-fA-F]{{3}}-?[89abAB][0-9a-fA-F]{{3}}-?[0-9a-fA-F]{{12}}"),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _matching("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "hexcolor": _matching("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matching(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)"),
    "bsonobjectid": _matching("[0-9a-fA-F]{24}"),
    "k8s-short-name": lambda text: not dns1123_label(text),
    "k8s-long-name": lambda text: not dns1123_subdomain(text),
}
