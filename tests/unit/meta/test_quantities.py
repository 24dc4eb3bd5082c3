"""Quantities: reading, the canonical form, exact arithmetic. Values of the tables are ``n × 10^scale``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta import quantities
from oarlock.meta.quantities import Family, Quantity, QuantityError

Vectors = Callable[[str], Any]

MAX = 2**63 - 1
# Groups of the table that are left out: `parse_whitespace` (the formats only, without cases) and `split` and
# `math_negative_scale` as far as they show Go's intermediate values; the same roundings are tested through `rounded`.

NUMBERS = {
    "1<<63 - 1": MAX,
    "(1 << 63) - 1": MAX,
    "mostPositive": MAX,
    "-mostPositive": -MAX,
    "-(mostPositive + 1)": -MAX - 1,
    "mostPositive / 2": MAX // 2,
    "mostPositive / -2": -(MAX // 2),
    "(mostPositive / 2) * 2": MAX // 2 * 2,
    "mostNegative / 2": (-MAX - 1) // 2,
    "mostNegative / -2": -((-MAX - 1) // 2),
    "3 * 1024 * 1024 * 1024 * 1024 * 1024 * 1024": 3 * 1024**6,
    ".5 * 1024 * 1024": 512 * 1024,
}


def _number(tree: Any) -> int:
    if isinstance(tree, int):
        return tree
    if "$go" in tree:
        return NUMBERS[tree["$go"]]
    args = [_number(arg) for arg in tree["args"]]
    match tree["$call"].removeprefix("big."):
        case "NewInt":
            return args[0]
        case "NewInt(0).Mul":
            return args[0] * args[1]
        case "NewInt(0).Add":
            return args[0] + args[1]
    raise AssertionError(tree)


def _quantity(tree: dict[str, Any]) -> Quantity:
    if "$call" in tree:
        number, scale, family = tree["args"]
        return Quantity(_number(number), scale, Family(family["args"][0]))
    family = Family(tree["Format"]["args"][0]) if "Format" in tree else Family.DECIMAL_SI
    if "d" in tree:
        number, scale = tree["d"]["*inf.Dec"]["args"]
        return Quantity(_number(number), -scale, family)
    return Quantity(0, 0, family)


def _same(found: Quantity, expected: Quantity) -> bool:
    return found == expected and found.family is expected.family


def _group(shared_vectors: Vectors, name: str) -> list[Any]:
    found: list[Any] = shared_vectors("quantity.json")["groups"][name]
    return found


def test_reading(shared_vectors: Vectors) -> None:
    for case in _group(shared_vectors, "parse"):
        expected = _quantity(case["expect"])
        assert _same(quantities.parse(case["input"]), expected), case
        assert quantities.parse("-" + case["input"]) == -expected
        assert quantities.parse("+" + case["input"]) == expected


def test_texts_that_are_none(shared_vectors: Vectors) -> None:
    for text in _group(shared_vectors, "invalid"):
        with pytest.raises(QuantityError):
            quantities.parse(text)


def test_order(shared_vectors: Vectors) -> None:
    for case in _group(shared_vectors, "cmp"):
        x, y = quantities.parse(case["x"]), quantities.parse(case["y"])
        assert (x > y) - (x < y) == case["expect"]


def test_rounding_is_away_from_zero(shared_vectors: Vectors) -> None:
    for case in _group(shared_vectors, "round_up"):
        quantity = quantities.parse(case["in"])
        rounded = quantity.rounded(case["scale"])
        assert rounded == _quantity(case["expect"])
        assert (rounded == quantity) is case["ok"]
    for case in _group(shared_vectors, "math_negative_scale"):
        # Dividing by 10^scale, rounding up, is reading in units of 10^scale.
        if case["scale"] >= 0:
            quantity = Quantity(case["base"], 0)
            assert quantity.scaled(case["scale"]) == case["result"]
            assert (quantity.rounded(case["scale"]) == quantity) is case["exact"]
    for case in _group(shared_vectors, "scaled_value"):
        assert Quantity(1, case["fromScale"]).scaled(case["toScale"]) == case["expected"]


def test_the_canonical_form(shared_vectors: Vectors) -> None:
    for case in _group(shared_vectors, "string"):
        quantity = _quantity(case["in"])
        assert str(quantity) == case["expect"]
        if case["alternate"]:
            assert quantities.parse(case["alternate"]) == quantity
    for case in _group(shared_vectors, "parse_emit"):
        assert str(quantities.parse(case["in"])) == case["expect"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1000m", "1"),
        ("1024", "1024"),
        ("1e3", "1e3"),
        ("+1", "1"),
        ("-0", "0"),
        ("1000E", "1000E"),
        ("1e21", "1e21"),
    ],
)
def test_the_canonical_form_of_well_known_ones(text: str, canonical: str) -> None:
    assert str(quantities.parse(text)) == canonical


def test_from_json(shared_vectors: Vectors) -> None:
    for case in _group(shared_vectors, "json_whitespace"):
        assert str(quantities.from_json(json.loads(case["in"]))) == case["expect"]
    assert quantities.from_json(None) == Quantity()
    assert quantities.from_json(1.5) == quantities.parse("1500m")
    for wrong in (True, [], {}, "", "abc"):
        with pytest.raises(QuantityError):
            quantities.from_json(wrong)


def test_arithmetic(shared_vectors: Vectors) -> None:
    for case in _group(shared_vectors, "add"):
        assert _same(_quantity(case["a"]) + _quantity(case["b"]), _quantity(case["expected"])), case
    for case in _group(shared_vectors, "sub"):
        assert _same(_quantity(case["a"]) - _quantity(case["b"]), _quantity(case["expected"])), case
    for case in _group(shared_vectors, "neg"):
        assert -_quantity(case["a"]) == _quantity(case["expected"])
    for case in _group(shared_vectors, "mul"):
        # `ok` says whether Go stayed within 64 bits, which integers here don't know.
        assert _quantity(case["a"]) * case["b"] == _quantity(case["expected"]), case


def test_as_float(shared_vectors: Vectors) -> None:
    known = {
        "(7 * 1024 * 1024) * math.Pow10(-1)": 734003.2,
        "(7 * 1024 * 1024) / float64(100000000)": 0.07340032,
        "math.MaxInt64": float(MAX),
    }
    for case in _group(shared_vectors, "as_float"):
        out = case["out"]
        if isinstance(out, dict):
            out = known[out["$go"]] if "$go" in out else math.copysign(math.inf, out["args"][0])
        assert float(_quantity(case["in"])) == out, case
    for case in _group(shared_vectors, "string_as_float"):
        assert float(quantities.parse(case["in"])) == case["out"]


def test_the_words_of_errors() -> None:
    for text, words in (
        ("", "quantities must match the regular expression"),
        ("1.1.M", "quantities must match the regular expression"),
        ("1i", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        (".", "unable to parse numeric part of quantity"),
    ):
        with pytest.raises(QuantityError, match=words):
            quantities.parse(text)


QUANTITIES = st.builds(Quantity, st.integers(-(10**25), 10**25), st.integers(-9, 12), st.sampled_from(Family))


@given(QUANTITIES)
def test_what_is_written_is_read_again(quantity: Quantity) -> None:
    limit = quantity.family is Family.BINARY_SI and str(quantity)[-1] == "i" and abs(quantity) > Quantity(MAX)
    if not limit:
        assert quantities.parse(str(quantity)) == quantity


def abs(quantity: Quantity) -> Quantity:
    return -quantity if quantity.unscaled < 0 else quantity


@given(QUANTITIES, QUANTITIES)
def test_sums_are_exact(a: Quantity, b: Quantity) -> None:
    assert (a + b) - b == a
    assert a + b == b + a
    assert (a < b) == ((b - a).unscaled > 0)


@pytest.mark.parametrize(
    ("given_", "worth"),
    [
        ("1.5Gi", 1610612736),
        ("100m", "0.1"),
        (2, 2),
        ("-1k", -1000),
        ("3n", "3e-9"),
        ("", None),
        ("1 GB", None),
        (True, None),
    ],
)
def test_what_a_quantity_is_worth(given_: int | str, worth: int | str | None) -> None:
    if worth is None:
        with pytest.raises(QuantityError):
            quantities.parse_quantity(given_)
    else:
        assert quantities.parse_quantity(given_) == Decimal(worth)


def test_numbers_are_written_as_quantities() -> None:
    half = quantities.parse_quantity("20Gi") / 2
    assert quantities.format_quantity(half, binary=True) == "10Gi"
    assert quantities.format_quantity(Decimal("1.5")) == "1500m"
    assert quantities.format_quantity(2000) == "2k"
    with pytest.raises(QuantityError):
        quantities.format_quantity(Decimal("NaN"))


@given(QUANTITIES)
def test_the_worth_of_a_quantity_is_exact(quantity: Quantity) -> None:
    whole = Quantity(quantity.unscaled, quantity.scale)
    assert quantities.format_quantity(quantity.decimal()) == str(whole)


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    try:
        quantities.parse(text)
    except QuantityError:
        pass


@pytest.mark.parametrize(
    "hostile", ["1e999999999", "1e-999999999", "9" * 100_000, "1" + "." * 100_000, "1e" + "9" * 900]
)
def test_hostile_texts_are_refused(hostile: str) -> None:
    with pytest.raises(QuantityError):
        quantities.parse(hostile)
