"""Quantities, by cases of our own: what the reference documentation of ``Quantity`` says, and its edges."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest

from oarlock.meta import quantities
from oarlock.meta.quantities import Family, Quantity, QuantityError

SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
    "e3": Fraction(1000),
    "E-2": Fraction(1, 100),
    "e+4": Fraction(10**4),
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_is_a_factor(suffix: str) -> None:
    factor = SUFFIXES[suffix]
    for number in ("3", "0.5", ".25", "07"):
        exact = Fraction(number) * factor
        if exact < Fraction(1, 10**9):
            continue  # what is less than a nano is rounded, which another test is about
        found = quantities.parse(number + suffix)
        assert float(found) == pytest.approx(float(exact))
        assert quantities.parse(f"-{number}{suffix}") == -found
        assert quantities.parse(f"+{number}{suffix}") == found


@pytest.mark.parametrize(
    "text", ["", " ", "k", "1 k", "1k ", "1kk", "1K", "1mi", "1.2.3", "--1", "1e", "0x10", "١", "1_0"]
)
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(QuantityError):
        quantities.parse(text)


def test_order() -> None:
    rising = ["-2", "-1500m", "0", "1n", "1u", "999m", "1", "1k", "1Ki", "1025", "1M", "1Mi", "1E", "1Ei"]
    values = [quantities.parse(text) for text in rising]
    assert sorted(values) == values
    assert all(a < b and not b < a for a, b in pairwise(values))
    assert quantities.parse("1000m") == quantities.parse("1") == quantities.parse("1e0")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2000m", "2"),
        ("2500", "2500"),
        ("0.3k", "300"),
        ("1500Ki", "1500Ki"),
        ("3072Ki", "3Mi"),
        ("0.25Mi", "256Ki"),
        ("1e4", "10e3"),
        ("12e-1", "1200e-3"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
    ],
)
def test_the_canonical_form_keeps_the_family_and_drops_fractions(text: str, canonical: str) -> None:
    assert str(quantities.parse(text)) == canonical
    assert str(quantities.parse(canonical)) == canonical


def test_rounding_is_away_from_zero() -> None:
    assert quantities.parse("7001m").rounded(0) == quantities.parse("8")
    assert quantities.parse("-7001m").rounded(0) == quantities.parse("-8")
    assert quantities.parse("7").rounded(0) == quantities.parse("7")
    assert quantities.parse("12345").rounded(3) == quantities.parse("13k")
    assert Quantity(12_345, 0).scaled(3) == 13
    assert Quantity(5, 3).scaled(0) == 5000


def test_arithmetic_keeps_the_family_of_the_left() -> None:
    binary, decimal = quantities.parse("1Gi"), quantities.parse("500M")
    total = binary + decimal
    assert float(total) == 2**30 + 500e6
    assert total.family is Family.BINARY_SI
    assert (decimal + binary).family is Family.DECIMAL_SI
    assert total - decimal == binary
    assert quantities.parse("250m") * 4 == quantities.parse("1")
    negative = -binary
    assert -negative == binary


def test_as_a_float() -> None:
    assert float(quantities.parse("1500m")) == 1.5
    assert float(quantities.parse("1.5Ki")) == 1536
    assert math.isclose(float(quantities.parse("3n")), 3e-9)
