"""Quantities, semantic versions, and the named formats of Kubernetes' own strings.

See also: `meta.quantities`, `meta.names`, `formats`, which know the rules.
Source: Kubernetes' quantity, semver and format libraries; semver.org.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import total_ordering
from typing import Any

from oarlock.meta import names, quantities
from oarlock.meta.dataclass import dataclass
from oarlock.meta.quantities import Quantity, QuantityError
from oarlock.schema.cel.problems import EvalError
from oarlock.schema.cel.values import INT_MAX, INT_MIN, NONE, Optional, no_overload
from oarlock.schema.structural import formats


def _text(value: Any) -> str:
    if type(value) is not str:
        raise no_overload()
    return value


# quantities ---------------------------------------------------------------------------------------


def _quantity(value: Any) -> Quantity:
    try:
        return quantities.parse(_text(value))
    except QuantityError as error:
        raise EvalError(str(error)) from error


def _is_quantity(value: Any) -> bool:
    try:
        quantities.parse(_text(value))
    except QuantityError:
        return False
    return True


def _a_quantity(value: Any) -> Quantity:
    if type(value) is int:
        return Quantity(value)
    if type(value) is not Quantity:
        raise no_overload()
    return value


def _whole(value: Any) -> int | None:
    quantity = _a_quantity(value)
    # Kubernetes calculates in 64 bits and doesn't accept larger values
    if not quantity.is_whole() or quantity.scale > 19:
        return None
    whole = quantity.scaled(0)
    return whole if INT_MIN <= whole <= INT_MAX else None


def _as_integer(value: Any) -> int:
    whole = _whole(value)
    if whole is None:
        raise EvalError("cannot convert value to integer")
    return whole


def _sign(value: Any) -> int:
    quantity = _a_quantity(value)
    return (quantity.unscaled > 0) - (quantity.unscaled < 0)


# semantic versions --------------------------------------------------------------------------------

_VERSION = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-((?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
).fullmatch
_MAX_VERSION = 1000


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A semantic version. Build metadata (behind the plus) is ignored in comparisons."""

    numbers: tuple[int, int, int]
    pre: tuple[str, ...] = ()
    cel_type = "kubernetes.Semver"

    def _key(self) -> tuple[Any, ...]:
        # a release comes after its candidates; numbers come before words
        pre = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre)
        return (self.numbers, not self.pre, pre)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key() == other._key()

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return ".".join(map(str, self.numbers)) + (f"-{'.'.join(self.pre)}" if self.pre else "")


def _normalized(text: str) -> str:
    """With three numbers, without leading zeros and without ``v``."""
    text = text.removeprefix("v")
    cut = min((at for at in (text.find("-"), text.find("+")) if at >= 0), default=len(text))
    parts = [part.lstrip("0") or "0" if part else part for part in text[:cut].split(".")]
    return ".".join(parts + ["0"] * (3 - len(parts))) + text[cut:]


def _parse_semver(value: Any, normalize: Any = False) -> Semver:
    text = _text(value)
    if len(text) > _MAX_VERSION:
        raise ValueError("Version string too long")
    if normalize is True:
        text = _normalized(text)
    match = _VERSION(text)
    if match is None:
        core = text.split("-")[0].split("+")[0]
        if not text:
            raise ValueError("Version string empty")
        raise ValueError(
            "No Major.Minor.Patch elements found" if core.count(".") < 2 else f"Invalid character(s) found in {text!r}"
        )
    pre = tuple(match[4].split(".")) if match[4] else ()
    return Semver((int(match[1]), int(match[2]), int(match[3])), pre)


def _semver(value: Any, normalize: Any = False) -> Semver:
    try:
        return _parse_semver(value, normalize)
    except ValueError as error:
        raise EvalError(str(error)) from error


def _is_semver(value: Any, normalize: Any = False) -> bool:
    try:
        _parse_semver(value, normalize)
    except ValueError:
        return False
    return True


def _number(at: int) -> Callable[[Any], int]:
    def number(value: Any) -> int:
        if type(value) is not Semver:
            raise no_overload()
        return value.numbers[at]

    return number


# formats ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A named format. `pattern_length` determines its cost."""

    name: str
    complaints: Callable[[str], list[str]]
    pattern_length: int
    cel_type = "kubernetes.NamedFormat"


def _prefix(rule: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: rule(names.mask_trailing_dash(text))


def _checked(name: str, complaint: str) -> Callable[[str], list[str]]:
    check = formats.checker(name)
    assert check is not None
    return lambda text: [] if check(text) else [complaint]


_LABEL, _SUBDOMAIN, _QUALIFIED, _UUID = 30, 60, 60, 87

_FORMATS = {
    form.name: form
    for form in (
        NamedFormat("dns1123Label", names.dns1123_label, _LABEL),
        NamedFormat("dns1123Subdomain", names.dns1123_subdomain, _SUBDOMAIN),
        NamedFormat("dns1035Label", names.dns1035_label, _LABEL),
        NamedFormat("qualifiedName", names.qualified_name, _QUALIFIED),
        NamedFormat("dns1123LabelPrefix", _prefix(names.dns1123_label), _LABEL),
        NamedFormat("dns1123SubdomainPrefix", _prefix(names.dns1123_subdomain), _SUBDOMAIN),
        NamedFormat("dns1035LabelPrefix", _prefix(names.dns1035_label), _LABEL),
        NamedFormat("labelValue", names.label_value, 40),
        NamedFormat("uri", _checked("uri", "invalid uri"), 1000),
        NamedFormat("uuid", _checked("uuid", "does not match the UUID format"), _UUID),
        NamedFormat("byte", _checked("byte", "invalid base64"), 1000),
        NamedFormat("date", _checked("date", "invalid date"), 30),
        NamedFormat("datetime", _checked("datetime", "invalid datetime"), 30),
    )
}


def _named(value: Any) -> Optional:
    named_format = _FORMATS.get(_text(value))
    return NONE if named_format is None else Optional(True, named_format)


def _validate(value: Any, text: Any) -> Optional:
    if type(value) is not NamedFormat:
        raise no_overload()
    complaints = value.complaints(_text(text))
    return Optional(True, complaints) if complaints else NONE


def _constant(form: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: form


def _compare(a: Any, b: Any) -> int:
    if type(a) is not type(b) or type(a) not in (Quantity, Semver):
        raise no_overload()
    return -1 if a < b else int(b < a)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "sign": _sign,
    "isInteger": lambda value: _whole(value) is not None,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_a_quantity(value)),
    "add": lambda a, b: _a_quantity(a) + _a_quantity(b),
    "sub": lambda a, b: _a_quantity(a) - _a_quantity(b),
    "isLessThan": lambda a, b: _compare(a, b) < 0,
    "isGreaterThan": lambda a, b: _compare(a, b) > 0,
    "compareTo": _compare,
    "semver": _semver,
    "isSemver": _is_semver,
    "major": _number(0),
    "minor": _number(1),
    "patch": _number(2),
    "format.named": _named,
    "validate": _validate,
    **{f"format.{name}": _constant(form) for name, form in _FORMATS.items()},
}
