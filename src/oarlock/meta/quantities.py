"""Quantities: ``500m``, ``1.5Gi``, ``1e3``; exact numbers that keep the family of suffixes they were written with.

A quantity is ``unscaled × 10^scale`` in integers, so it has no binary rounding errors. What is smaller than a nano
is rounded up, away from zero, so a non-zero request never becomes zero. See also: `gotext`, which formats values.
Source: k8s.io/apimachinery ``api/resource``.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from enum import Enum
from functools import lru_cache, total_ordering
from typing import Any

from oarlock.meta.dataclass import dataclass

_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"

_NANO = -9
_MILLI = -3
_EXA = 18
_MAX_INT64 = 2**63 - 1
_MAX_CHARS = 1_000
_MAX_EXPONENT = 1_000

_parts = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII).fullmatch
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}


class QuantityError(ValueError):
    """The text isn't a quantity."""


class Family(Enum):
    """The family of suffixes a quantity is written with."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """``unscaled × 10^scale``. Compared by value; the family matters only for the text."""

    unscaled: int = 0
    scale: int = 0
    family: Family = Family.DECIMAL_SI

    def __post_init__(self) -> None:
        unscaled, scale = self.unscaled, self.scale
        if unscaled == 0:
            scale = 0
        while unscaled and unscaled % 10 == 0:
            unscaled //= 10
            scale += 1
        object.__setattr__(self, "unscaled", unscaled)
        object.__setattr__(self, "scale", scale)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return (self.unscaled, self.scale) == (other.unscaled, other.scale)

    def __hash__(self) -> int:
        return hash((self.unscaled, self.scale))

    def __lt__(self, other: Quantity) -> bool:
        mine, theirs, _ = self._aligned(other)
        return mine < theirs

    def __bool__(self) -> bool:
        return self.unscaled != 0

    def _aligned(self, other: Quantity) -> tuple[int, int, int]:
        scale = min(self.scale, other.scale)
        return self.unscaled * _ten_to(self.scale - scale), other.unscaled * _ten_to(other.scale - scale), scale

    def __add__(self, other: Quantity) -> Quantity:
        mine, theirs, scale = self._aligned(other)
        return Quantity(mine + theirs, scale, self.family if self else other.family)

    def __sub__(self, other: Quantity) -> Quantity:
        mine, theirs, scale = self._aligned(other)
        return Quantity(mine - theirs, scale, self.family if self else other.family)

    def __neg__(self) -> Quantity:
        return Quantity(-self.unscaled, self.scale, self.family)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.unscaled * factor, self.scale, self.family)

    def __float__(self) -> float:
        """The nearest float; infinite when out of range."""
        return float(f"{self.unscaled}e{self.scale}")

    def decimal(self) -> Decimal:
        """The exact value."""
        if self.is_whole():
            return Decimal(self.scaled(0))
        return Decimal(self.unscaled).scaleb(self.scale, _EXACT)

    def scaled(self, scale: int) -> int:
        """The value in units of ``10^scale``, rounded away from zero: ``scaled(-3)`` is in thousandths."""
        shift = self.scale - scale
        if shift >= 0:
            return self.unscaled * _ten_to(shift)
        magnitude = -(-abs(self.unscaled) // _ten_to(-shift))
        return magnitude if self.unscaled > 0 else -magnitude

    def rounded(self, scale: int) -> Quantity:
        """The value as a multiple of ``10^scale``, rounded away from zero."""
        return self if self.scale >= scale else Quantity(self.scaled(scale), scale, self.family)

    def is_whole(self) -> bool:
        return self.scale >= 0

    def __str__(self) -> str:
        """The canonical form: no fraction, and the largest suffix without loss of precision."""
        if not self.unscaled:
            return "0"
        if self.family is Family.BINARY_SI and self.is_whole() and abs(whole := self.scaled(0)) >= 1024:
            exponent = 0
            while exponent < 60 and whole % 1024 == 0:
                whole //= 1024
                exponent += 10
            return f"{whole}{_BINARY_SUFFIX.get(exponent, '')}"
        if self.family is Family.DECIMAL_EXPONENT:
            exponent = self.scale // 3 * 3
            return f"{self.scaled(exponent)}{f'e{exponent}' if exponent else ''}"
        exponent = max(_NANO, min(_EXA, self.scale // 3 * 3))
        return f"{self.scaled(exponent)}{_DECIMAL_SUFFIX[exponent]}"


_EXACT = Context(prec=2 * _MAX_CHARS + _MAX_EXPONENT)
"""Enough digits for any quantity that can be read."""


def _ten_to(exponent: int) -> int:
    return int(10**exponent)


def parse(text: str) -> Quantity:
    """Parse a quantity. Raises QuantityError with Kubernetes' wording.

    Binary quantities are capped at 2^63-1, as in Kubernetes.
    """
    parts = _parts(text) if text and len(text) <= _MAX_CHARS else None
    if parts is None or not (parts[2] or parts[3] is not None):
        raise QuantityError(_WRONG_FORMAT)
    sign, whole, fraction, suffix = parts[1], parts[2], parts[3] or "", parts[4]
    if not whole and not fraction:
        raise QuantityError(_WRONG_NUMBER)
    unscaled, scale = int(whole + fraction), -len(fraction)
    if suffix in _BINARY:
        magnitude = Quantity(unscaled << _BINARY[suffix], scale, Family.BINARY_SI).rounded(_NANO)
        if magnitude > _LARGEST_BINARY:
            magnitude = _LARGEST_BINARY
        if Quantity() < magnitude < Quantity(1):
            magnitude = Quantity(magnitude.unscaled, magnitude.scale)
    else:
        exponent, family = _decimal_suffix(suffix)
        magnitude = Quantity(unscaled, scale + exponent, family).rounded(_NANO)
    return -magnitude if sign == "-" else magnitude


_LARGEST_BINARY = Quantity(_MAX_INT64, 0, Family.BINARY_SI)


def _decimal_suffix(suffix: str) -> tuple[int, Family]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], Family.DECIMAL_SI
    if suffix[0] in "eE":
        try:
            exponent = int(suffix[1:])
        except ValueError:
            raise QuantityError(_WRONG_SUFFIX) from None
        if abs(exponent) > _MAX_EXPONENT:
            raise QuantityError(_WRONG_SUFFIX)
        return exponent, Family.DECIMAL_EXPONENT
    raise QuantityError(_WRONG_SUFFIX)


def from_json(value: object) -> Quantity:
    """The quantity in a JSON value: a string or a number; null is zero. Raises QuantityError."""
    if value is None:
        return Quantity()
    if isinstance(value, str):
        return parse(value.strip())
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return parse(_as_text(value))
    raise QuantityError(_WRONG_FORMAT)


def _as_text(value: int | float) -> str:
    return repr(value).removesuffix(".0")


def _canonical(text: str) -> str | None:
    """As Kubernetes writes the quantity; None for a text that is none."""
    text = text.strip()
    try:
        quantity = parse(text)
    except QuantityError:
        return None
    return text if _is_kept(text) else str(quantity)


_remembered = lru_cache(maxsize=1024)(_canonical)

_MAX_CACHED = 64
"""In characters. Longer texts aren't remembered: nobody writes one twice."""


def _is_kept(text: str) -> bool:
    """Whether Kubernetes keeps the spelling: it does where it thinks that nothing could be shorter, as for ``+1``."""
    parts = _parts(text)
    assert parts is not None
    fraction, suffix = parts[3] or "", parts[4]
    digits = (parts[2].lstrip("0") or "0") + fraction
    if suffix in _BINARY:
        places = _INT64_DIGITS - 4 - len(digits) - _BINARY[suffix] * 3 // 10
        return places >= 0 and not fraction and int(digits) & 7 != 0
    scale = _decimal_suffix(suffix)[0] - len(fraction)
    return (
        len(digits) <= _INT64_DIGITS
        and scale >= _NANO
        and scale % 3 == 0
        and not digits.endswith("000")
        and digits[0] != "0"
    )


_INT64_DIGITS = 18
"""So many digits always fit into 64 bits."""


def canonical_quantity(value: Any) -> Any:
    """A quantity of a JSON body as Kubernetes writes it: ``0.5`` is ``"500m"``; what is none stays as it is."""
    if type(value) is str:
        canonical = _remembered(value) if len(value) <= _MAX_CACHED else _canonical(value)
    elif type(value) is int or type(value) is float:
        canonical = _canonical(_as_text(value))
    else:
        return value
    return value if canonical is None else canonical


def canonical_in_thousandths(value: Any) -> Any:
    """The same for amounts that have no smaller parts than thousandths: what is smaller is rounded up."""
    text = canonical_quantity(value)
    if type(text) is str and (text[-1:] in ("n", "u") or "e-" in text):
        try:
            return str(parse(text).rounded(_MILLI))
        except QuantityError:
            return text
    return text


def is_quantity(value: Any) -> bool:
    """Whether a value of a JSON body is a quantity."""
    if type(value) is str:
        return (_remembered(value) if len(value) <= _MAX_CACHED else _canonical(value)) is not None
    return type(value) in (int, float) and _canonical(_as_text(value)) is not None


def complaint(value: Any) -> str:
    """What Kubernetes says of a value that is no quantity."""
    try:
        from_json(value)
    except QuantityError as error:
        return str(error)
    return ""


def parse_quantity(value: int | str) -> Decimal:
    """The value of a quantity: ``"1.5Gi"`` is 1610612736, ``"100m"`` is 0.1. Raises QuantityError, a ValueError."""
    return from_json(value).decimal()


def format_quantity(value: int | Decimal, *, binary: bool = False) -> str:
    """A number as a quantity, with the largest suffix without loss: ``1500m``, ``2k``; with `binary` ``1536Mi``.

    Fractions below a nano are rounded up. Raises QuantityError if the value isn't a number.
    """
    exact = Decimal(value)
    if not exact.is_finite():
        raise QuantityError(_WRONG_NUMBER)
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    return str(Quantity(unscaled, exponent, Family.BINARY_SI if binary else Family.DECIMAL_SI).rounded(_NANO))
