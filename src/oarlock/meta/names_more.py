"""What the names may look like that only some kinds have: ports, percentages, addresses, headers, domains, paths.

Like `names`, each check returns its complaints. Those that upstream words as errors of a field return
`FieldError`\\ s and take the field's path. Next: `names` for the common ones.
Source: k8s.io/apimachinery ``util/validation``; RFC 5952 for the canonical form of IPv6 addresses.
"""

from __future__ import annotations

import ipaddress
import re

from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.gotext import quote
from oarlock.meta.names import (
    dns1123_label,
    dns1123_subdomain,
    max_length,
    qualified_name,
    regex_complaint,
)

__all__ = [
    "cidr",
    "cidr_warnings",
    "config_map_key",
    "dns1123_subdomain_with_underscore",
    "domain_prefixed_key",
    "domain_prefixed_path",
    "env_var_name",
    "fully_qualified_domain_name",
    "fully_qualified_name",
    "http_header_name",
    "interface_address",
    "ip",
    "ip_warnings",
    "percent",
    "port_name",
    "port_number",
    "wildcard_dns1123_subdomain",
    "within",
]

_UNDERSCORED = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED_SUBDOMAIN = rf"{_UNDERSCORED}(\.{_UNDERSCORED})*"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def _matched(text: str, pattern: str, message: str, *examples: str) -> list[str]:
    return [] if re.fullmatch(pattern, text, re.ASCII) else [regex_complaint(message, pattern, *examples)]


# Numbers ------------------------------------------------------------------------------------------


def within(value: int, low: int, high: int) -> list[str]:
    """Is `value` between `low` and `high`, both included?"""
    return [] if low <= value <= high else [f"must be between {low} and {high}, inclusive"]


def port_number(port: int) -> list[str]:
    """1 to 65535."""
    return within(port, 1, 65535)


def percent(text: str) -> list[str]:
    """``93%``."""
    message = "a valid percent string must be a numeric string followed by an ending '%'"
    return _matched(text, "[0-9]+%", message, "1%", "93%")


# Names --------------------------------------------------------------------------------------------


def port_name(text: str) -> list[str]:
    """``http-alt``: an IANA service name of at most 15 characters."""
    complaints = [max_length(15)] if len(text.encode()) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", text):
        complaints.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        complaints.append("must contain at least one letter (a-z)")
    if "--" in text:
        complaints.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        complaints.append("must not begin or end with a hyphen")
    return complaints


def http_header_name(text: str) -> list[str]:
    """``X-Header-Name``."""
    message = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return _matched(text, "[-A-Za-z0-9]+", message, "X-Header-Name")


def env_var_name(text: str) -> list[str]:
    """Anything printable of ASCII but ``=``."""
    if not text:
        return ["environment variable name must be non-empty"]
    if re.fullmatch(r"[\x20-\x7e]+", text) and "=" not in text:
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_map_key(text: str) -> list[str]:
    """A key of a config map or secret, which becomes the name of a file."""
    complaints = [max_length(253)] if len(text.encode()) > 253 else []
    message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    complaints += _matched(text, "[-._a-zA-Z0-9]+", message, "key.name", "KEY_NAME", "key-name")
    if text in (".", ".."):
        complaints.append(f"must not be '{text}'")
    elif text.startswith(".."):
        complaints.append("must not start with '..'")
    return complaints


def wildcard_dns1123_subdomain(text: str) -> list[str]:
    """``*.example.com``."""
    message = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
        "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
    )
    too_long = [max_length(253)] if len(text.encode()) > 253 else []
    return too_long + _matched(text, _WILDCARD, message, "*.example.com")


def dns1123_subdomain_with_underscore(text: str) -> list[str]:
    """``_sip.example.com``."""
    message = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    too_long = [max_length(253)] if len(text.encode()) > 253 else []
    return too_long + _matched(text, _UNDERSCORED_SUBDOMAIN, message, "example.com")


# Domains and paths, as errors of a field ----------------------------------------------------------


def fully_qualified_name(path: str, text: str) -> list[FieldError]:
    """A domain of at least three labels, as names of quotas' resources are."""
    if not text:
        return [Required(path)]
    complaints = dns1123_subdomain(text)
    if complaints:
        return [Invalid(path, text, ",".join(complaints))]
    if text.count(".") < 2:
        return [Invalid(path, text, "should be a domain with at least three segments separated by dots")]
    return []


def fully_qualified_domain_name(path: str, text: str) -> list[FieldError]:
    """A domain of at least two labels, each a valid one; a dot at the end is allowed."""
    if not text:
        return [Required(path)]
    text = text.removesuffix(".")
    complaints = dns1123_subdomain(text)
    if complaints:
        return [Invalid(path, text, ",".join(complaints))]
    if "." not in text:
        return [Invalid(path, text, "should be a domain with at least two segments separated by dots")]
    for label in text.split("."):
        complaints = dns1123_label(label)
        if complaints:
            return [Invalid(path, label, ",".join(complaints))]
    return []


def domain_prefixed_path(path: str, text: str) -> list[FieldError]:
    """``acme.io/foo/bar``."""
    if not text:
        return [Required(path)]
    host, _, rest = text.partition("/")
    if not host or not rest:
        return [Invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    found: list[FieldError] = [Invalid(path, host, complaint) for complaint in dns1123_subdomain(host)]
    found += [Invalid(path, rest, complaint) for complaint in _matched(rest, _PATH, "Invalid path")]
    return found


def domain_prefixed_key(path: str, text: str) -> list[FieldError]:
    """``acme.io/foo``: a qualified name whose prefix isn't optional."""
    if not text:
        return [Required(path)]
    found: list[FieldError] = [Invalid(path, text, complaint) for complaint in qualified_name(text)]
    if not found and "/" not in text:
        found.append(Invalid(path, text, 'must be a domain-prefixed key (such as "acme.io/foo")'))
    return found


# Addresses ----------------------------------------------------------------------------------------

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NOT_AN_IP = "must be a valid IP address"
_NOT_A_CIDR = "must be a valid CIDR value"
_NOT_AN_INTERFACE = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"


def _sloppy_ip(text: str) -> _Address | None:
    """The address, also where an IPv4 number has leading zeros."""
    if "%" in text or len(text) > 100:
        return None
    head, colon, tail = text.rpartition(":")
    dotted = re.fullmatch(r"[0-9]+(\.[0-9]+){3}", tail, re.ASCII)
    if dotted:
        numbers = [str(int(number)) for number in tail.split(".")]
        text = head + colon + ".".join(numbers)
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _canonical(address: _Address) -> _Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _has_leading_zero(text: str) -> bool:
    return any(len(number) > 1 and number[0] == "0" for number in text.rpartition(":")[2].split("."))


def ip(text: str) -> list[str]:
    """An IP address in its canonical form."""
    address = _sloppy_ip(text)
    if address is None:
        return [f"{_NOT_AN_IP}, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if isinstance(address, ipaddress.IPv4Address):
        return ["must not have leading 0s"] if _has_leading_zero(text) else []
    if address.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return [] if str(address) == text else [f"must be in canonical form ({quote(str(address))})"]


def ip_warnings(path: str, text: str) -> list[str]:
    """What to warn of in an address that older rules allow."""
    address = _sloppy_ip(text)
    if address is None:
        return []
    canonical = _canonical(address)
    if canonical is not address or (address.version == 4 and _has_leading_zero(text)):
        return [f"{path}: non-standard IP address {quote(text)} is invalid: use {quote(str(canonical))}"]
    if address.version == 6 and str(address) != text:
        return [f"{path}: IPv6 address {quote(text)} should be in RFC 5952 canonical format ({quote(str(address))})"]
    return []


def _sloppy_cidr(text: str) -> tuple[_Address, int, str] | None:
    """Address, prefix length and the length as written; None when it is no CIDR."""
    host, slash, length = text.partition("/")
    address = _sloppy_ip(host)
    if not slash or address is None or not re.fullmatch("[0-9]{1,5}", length, re.ASCII):
        return None
    bits = int(length)
    canonical = _canonical(address)
    if canonical is not address and bits <= 32:
        # Go reads the prefix of a mapped address as that of the IPv4 address when it can be one.
        return address, bits, length
    return (address, bits, length) if bits <= address.max_prefixlen else None


def _as_written_by_go(address: _Address, bits: int) -> tuple[_Address, int]:
    canonical = _canonical(address)
    if canonical is not address and bits > 32:
        bits -= 96
    return canonical, max(bits, 0)


def cidr(text: str) -> list[str]:
    """A subnet in its canonical form."""
    found = _sloppy_cidr(text)
    if found is None:
        return [f"{_NOT_A_CIDR}, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    address, bits, length = found
    canonical, canonical_bits = _as_written_by_go(address, bits)
    if canonical is not address:
        return ["must not have an IPv4-mapped IPv6 address"]
    if address.version == 4 and _has_leading_zero(text.partition("/")[0]):
        return ["must not have leading 0s in IP"]
    if len(length) > 1 and length[0] == "0":
        return ["must not have leading 0s in prefix length"]
    network = ipaddress.ip_network(f"{address}/{bits}", strict=False)
    if network.network_address != address:
        return ["must not have bits set beyond the prefix length"]
    shown = f"{canonical}/{canonical_bits}"
    return [] if shown == text else [f"must be in canonical form ({quote(shown)})"]


def cidr_warnings(path: str, text: str) -> list[str]:
    """What to warn of in a subnet that older rules allow."""
    found = _sloppy_cidr(text)
    if found is None:
        return []
    address, bits, length = found
    canonical, canonical_bits = _as_written_by_go(address, bits)
    network = ipaddress.ip_network(f"{canonical}/{canonical_bits}", strict=False)
    warnings = []
    if network.network_address != canonical:
        either = f"{quote(str(network))} or {quote(f'{canonical}/{canonical.max_prefixlen}')}"
        warnings.append(f"{path}: CIDR value {quote(text)} is ambiguous in this context (should be {either}?)")
    zeros = address.version == 4 and _has_leading_zero(text.partition("/")[0])
    if canonical is not address or zeros or (len(length) > 1 and length[0] == "0"):
        warnings.append(f"{path}: non-standard CIDR value {quote(text)} is invalid: use {quote(str(network))}")
    elif not warnings and address.version == 6 and str(network) != text:
        shown = quote(str(network))
        warnings.append(f"{path}: IPv6 CIDR value {quote(text)} should be in RFC 5952 canonical format ({shown})")
    return warnings


def interface_address(text: str) -> list[str]:
    """An address with the length of its network's prefix, in canonical form."""
    found = _sloppy_cidr(text)
    if found is None:
        return [_NOT_AN_INTERFACE]
    address, bits, _ = found
    canonical, canonical_bits = _as_written_by_go(address, bits)
    shown = f"{canonical}/{canonical_bits}"
    return [] if shown == text else [f"must be in canonical form ({quote(shown)})"]
