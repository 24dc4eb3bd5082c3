"""Rules for single values: ports, names, labels, selectors, paths, addresses, durations.

Each yields the errors of one value under the path it is given, in Kubernetes' words. What several kinds need is here;
what one kind needs is in its file. Source: k8s.io/apimachinery ``util/validation``; Kubernetes'
``apis/core/validation``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from oarlock.apps.kinds.common.trees import TreeCheck, at, go_value
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required, TooLong, TooMany
from oarlock.meta.json_trees import Tree
from oarlock.meta.names import regex_complaint

PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
_OWN_FINALIZERS: Final = ("foregroundDeletion", "kubernetes", "orphan")
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_BAD_CONFIG_KEY: Final = names.regex_complaint(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "[-._a-zA-Z0-9]+",
    "key.name",
    "KEY_NAME",
    "key-name",
)
_BAD_ENV_NAME: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_BAD_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_BAD_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_NEEDS_VALUES: Final = ("In", "NotIn")
_NEEDS_NO_VALUES: Final = ("Exists", "DoesNotExist")


def check_text(check: Callable[[str], list[str]], text: str, path: str) -> Iterator[FieldError]:
    """The complaints of a function of ``meta.names`` about a text."""
    for complaint in check(text):
        yield Invalid(path, text, complaint)


def check_required_name(check: Callable[[str], list[str]], text: str | None, path: str) -> Iterator[FieldError]:
    """The same for a text that mustn't be empty."""
    if not text:
        yield Required(path)
    else:
        yield from check_text(check, text, path)


def check_qualified_name(text: str, path: str) -> Iterator[FieldError]:
    """A key of labels, or what is written like one."""
    yield from check_text(names.qualified_name, text, path)


def check_whether_supported(value: str | None, supported: Sequence[str], path: str) -> Iterator[FieldError]:
    """One of a few words, which mustn't be empty."""
    if not value:
        yield Required(path)
    elif value not in supported:
        yield NotSupported(path, value, supported)


def check_not_negative(tree: Mapping[str, Any], path: str, *fields: str) -> Iterator[FieldError]:
    """Numbers in an object at `path`."""
    for name in fields:
        if (tree.get(name) or 0) < 0:
            yield Invalid(f"{path}.{name}" if path else name, tree[name], NON_NEGATIVE)


def check_range(value: int | None, least: int, most: int, path: str) -> Iterator[FieldError]:
    """A whole number between two others, if it is there."""
    if value is not None and not least <= value <= most:
        yield Invalid(path, value, f"must be between {least} and {most}, inclusive")


def check_port_number(value: int, path: str) -> Iterator[FieldError]:
    """The number of a port."""
    yield from check_range(value, 1, 65535, path)


def check_port_name(name: str, path: str) -> Iterator[FieldError]:
    """The name of a port (RFC 6335)."""
    if len(name.encode()) > 15:
        yield Invalid(path, name, "must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", name):
        yield Invalid(path, name, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        yield Invalid(path, name, "must contain at least one letter (a-z)")
    if "--" in name:
        yield Invalid(path, name, "must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        yield Invalid(path, name, "must not begin or end with a hyphen")


def check_port(value: int | str, path: str) -> Iterator[FieldError]:
    """The number or the name of a port."""
    if isinstance(value, str):
        yield from check_port_name(value, path)
    else:
        yield from check_port_number(value, path)


def check_config_key(key: str, path: str) -> Iterator[FieldError]:
    """A key of the data of a ConfigMap or a Secret."""
    if len(key.encode()) > 253:
        yield Invalid(path, key, names.max_length(253))
    if not _CONFIG_KEY.fullmatch(key):
        yield Invalid(path, key, _BAD_CONFIG_KEY)
    if key in (".", ".."):
        yield Invalid(path, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield Invalid(path, key, "must not start with '..'")


def check_env_name(name: str, path: str) -> Iterator[FieldError]:
    """The name of an environment variable."""
    if not re.fullmatch("[ -<>-~]+", name):
        yield Invalid(path, name, _BAD_ENV_NAME)


def check_mode(value: int | None, path: str) -> Iterator[FieldError]:
    """The permissions of a file."""
    if value is not None and not 0 <= value <= 0o777:
        yield Invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive")


def check_no_backsteps(text: str, path: str) -> Iterator[FieldError]:
    """A path without ``..``."""
    if ".." in text.split("/"):
        yield Invalid(path, text, "must not contain '..'")


def check_descending_path(text: str, path: str) -> Iterator[FieldError]:
    """A relative path without ``..``."""
    if text.startswith("/"):
        yield Invalid(path, text, "must be a relative path")
    yield from check_no_backsteps(text, path)


def _is_octet(text: str) -> bool:
    """Whether a text is one of the numbers in an IPv4 address, perhaps with zeros before it."""
    return len(text) <= 10 and text.isascii() and text.isdecimal() and int(text) < 256


def check_ip(text: str, path: str, *, strict: bool = True) -> Iterator[FieldError]:
    """An IP address; a `strict` one without leading zeros, and no IPv4 address written as IPv6."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        parts = text.split(".")
        if len(parts) == 4 and all(map(_is_octet, parts)):
            if strict:
                yield Invalid(path, text, "must not have leading 0s")
        else:
            yield Invalid(path, text, _BAD_IP)
        return
    if "%" in text:
        yield Invalid(path, text, _BAD_IP)
    elif strict and isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        yield Invalid(path, text, "must not be an IPv4-mapped IPv6 address")


def check_cidr(text: str, path: str) -> Iterator[FieldError]:
    """A range of addresses, in the one way of writing that all programs read alike."""
    address, slash, length = text.partition("/")
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        parts = address.split(".")
        if len(parts) == 4 and all(map(_is_octet, parts)) and _is_octet(length) and int(length) <= 32:
            yield Invalid(path, text, "must not have leading 0s in IP or prefix length")
        else:
            yield Invalid(path, text, _BAD_CIDR)
        return
    if not slash or not length.isdecimal() or "%" in text:
        yield Invalid(path, text, _BAD_CIDR)
    elif len(length) > 1 and length.startswith("0"):
        yield Invalid(path, text, "must not have leading 0s in IP or prefix length")
    elif isinstance(network, ipaddress.IPv6Network) and ipaddress.IPv6Address(address).ipv4_mapped is not None:
        yield Invalid(path, text, "must not have an IPv4-mapped IPv6 address")
    elif ipaddress.ip_address(address) != network.network_address:
        yield Invalid(path, text, "must not have bits set beyond the prefix length")


def check_ordinary_ip(text: str, path: str) -> Iterator[FieldError]:
    """An address that something can be reached at: none that isn't one, none of this machine or of a link."""
    given, parts = text, text.split(".")
    if len(parts) == 4 and all(map(_is_octet, parts)):
        text = ".".join(str(int(part)) for part in parts)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        yield Invalid(path, given, "must be a valid IP address")
        return
    if address.is_unspecified:
        yield Invalid(path, given, f"may not be unspecified ({address})")
    if address.is_loopback:
        yield Invalid(path, given, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        yield Invalid(path, given, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    local = ipaddress.ip_network("224.0.0.0/24" if address.version == 4 else "ff02::/16")
    if address in local:
        yield Invalid(path, given, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def check_domain_path(text: str, path: str) -> Iterator[FieldError]:
    """A domain with something after it, such as ``acme.io/foo``."""
    if not text:
        yield Required(path)
        return
    host, slash, rest = text.partition("/")
    if not slash or not host or not rest:
        yield Invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from check_text(names.dns1123_subdomain, host, path)
    if not re.fullmatch(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", rest):
        yield Invalid(path, rest, "must consist of characters that a path may have")


def check_parameters(parameters: Mapping[str, str] | None, path: str) -> Iterator[FieldError]:
    """What a class tells its driver: at most 512 texts, together no more than 256 KiB."""
    if not parameters:
        return
    if len(parameters) > 512:
        yield TooMany(path, len(parameters), 512)
        return
    total = 0
    for key, value in parameters.items():
        if not key:
            yield Invalid(path, key, "field can not be empty.")
        total += len(key) + len(value or "")
    if total > 256 * 1024:
        yield TooLong(path, 256 * 1024)


def check_finalizers(metadata: Tree) -> Iterator[FieldError]:
    """Finalizers are Kubernetes' own, or have the domain of who takes them off."""
    for i, name in enumerate(metadata.get("finalizers") or ()):
        if "/" not in name and name not in _OWN_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield Invalid(f"metadata.finalizers[{i}]", name, why)


def check_labels(labels: Mapping[str, str] | None, path: str) -> Iterator[FieldError]:
    """Keys and values of labels; all errors are at `path`."""
    for key, value in sorted((labels or {}).items()):
        yield from check_qualified_name(key, path)
        yield from check_text(names.label_value, value or "", path)


def check_label_selector(selector: Tree | None, path: str, *, values: bool = True) -> Iterator[FieldError]:
    """A LabelSelector. `values` says whether the values of its expressions are looked at."""
    if not selector:
        return
    yield from check_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for i, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from _check_requirement(expression, f"{path}.matchExpressions[{i}]", values=values)


def _check_requirement(expression: Tree, path: str, *, values: bool) -> Iterator[FieldError]:
    operator, given = expression.get("operator", ""), expression.get("values") or ()
    if operator in _NEEDS_VALUES:
        if not given:
            yield Required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _NEEDS_NO_VALUES:
        if given:
            yield Forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield Invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from check_qualified_name(expression.get("key", ""), f"{path}.key")
    for i, value in enumerate(given if values else ()):
        yield from check_text(names.label_value, value, f"{path}.values[{i}]")


_PERCENT: Final = regex_complaint(
    "a valid percent string must be a numeric string followed by an ending '%'", "[0-9]+%", "1%", "93%"
)

IMMUTABLE: Final = "field is immutable"
NON_NEGATIVE: Final = "must be greater than or equal to 0"


def shown(tree: Tree) -> Any:
    return tree or None


def immutable(*paths: str) -> TreeCheck:
    """These fields never change."""

    def check(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
        for path in paths if old is not None else ():
            if at(new, path) != at(old, path):
                yield Invalid(path, at(new, path), IMMUTABLE)

    return check


def unchanged(new: Tree, old: Tree, path: str, *fields: str, kind: str = "") -> Iterator[FieldError]:
    """Fields of an object at `path` that stay as they are; `kind` is what Go calls their type."""
    for name in fields:
        if new.get(name) != old.get(name):
            yield Invalid(f"{path}.{name}" if path else name, go_value(kind, new.get(name)), IMMUTABLE)


def check_int_or_percent(value: int | str | None, path: str) -> Iterator[FieldError]:
    """A number that isn't negative, or a percentage."""
    if isinstance(value, str):
        if not re.fullmatch("[0-9]+%", value):
            yield Invalid(path, value, _PERCENT)
    elif (value or 0) < 0:
        yield Invalid(path, value, NON_NEGATIVE)


def check_at_most_all(value: int | str | None, path: str) -> Iterator[FieldError]:
    """A percentage of no more than a hundred, if it is one."""
    if isinstance(value, str) and re.fullmatch("[0-9]+%", value) and (len(value) > 5 or int(value[:-1]) > 100):
        yield Invalid(path, value, "must not be greater than 100%")


def is_none(value: int | str | None) -> bool:
    """Whether a number or a percentage is zero."""
    return value in (None, 0) or (isinstance(value, str) and value.rstrip("%").strip("0") == "")
