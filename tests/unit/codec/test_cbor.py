"""CBOR: what Kubernetes' clients write is read, and what has no place in an object is refused in one line."""

from __future__ import annotations

import json
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.codec import cbor
from oarlock.codec.errors import DecodeError

TAG = cbor2.CBORTag
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
numbers = st.floats(allow_nan=False, allow_infinity=False)
trees = st.recursive(
    scalars | numbers, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30
)


def as_bytes(tree: Any) -> Any:
    """The tree as Go writes it, with byte strings for text."""
    if isinstance(tree, str):
        return tree.encode()
    if isinstance(tree, dict):
        return {as_bytes(key): as_bytes(value) for key, value in tree.items()}
    return [as_bytes(item) for item in tree] if isinstance(tree, list) else tree


@pytest.mark.slow
@given(trees)
def test_trees_come_back(tree: Any):
    data = cbor.encode(tree)
    assert data.startswith(cbor.SELF_DESCRIBED)
    assert cbor.decode(data) == tree
    assert cbor.decode(data[3:]) == tree, "the tag isn't needed"
    assert cbor.decode(cbor2.dumps(as_bytes(tree))) == tree


@given(st.binary(max_size=64))
def test_any_bytes_are_a_tree_or_an_error(data: bytes):
    try:
        tree = cbor.decode(data)
    except DecodeError:
        return
    json.dumps(tree, allow_nan=False)


@given(trees, st.integers(0, 300), st.binary(min_size=1, max_size=4))
def test_what_was_written_and_then_damaged(tree: Any, at: int, damage: bytes):
    data = cbor.encode(tree)
    at %= len(data)
    try:
        cbor.decode(data[:at] + damage + data[at + len(damage) :])
    except DecodeError:
        pass


@pytest.mark.parametrize(
    ("data", "tree"),
    [
        (cbor2.dumps(TAG(0, "2020-01-01T00:00:00Z")), "2020-01-01T00:00:00Z"),
        (cbor2.dumps(TAG(1, 1363896240)), "2013-03-21T20:04:00Z"),
        (cbor2.dumps(TAG(1, 0.0)), "1970-01-01T00:00:00Z"),
        (cbor2.dumps(TAG(21, b"\xff\x00")), "_wA"),
        (cbor2.dumps(TAG(22, b"\xff\x00")), "/wA="),
        (cbor2.dumps(TAG(23, b"\xff\x00")), "FF00"),
        (cbor2.dumps(TAG(22, ["a"])), ["a"]),
        (cbor2.dumps(TAG(9999, {"a": [1, {"b": TAG(37, b"x")}]})), {"a": [1, {"b": "x"}]}),
        (cbor2.dumps(TAG(55799, TAG(55799, {"a": 1}))), {"a": 1}),
        (cbor2.dumps(TAG(260, b"abcd")), "abcd"),
        (cbor2.dumps(TAG(35, "(")), "("),
        (cbor2.dumps(1.5, canonical=True), 1.5),
        (cbor2.dumps(-(2**63)), -(2**63)),
        (b"\x81" * 199 + b"\x01", None),
    ],
)
def test_tags_are_text_or_what_they_enclose(data: bytes, tree: Any):
    read = cbor.decode(data)
    assert tree is None or read == tree


@pytest.mark.parametrize(
    ("hexed", "why"),
    [
        ("", "premature end"),
        ("d9d9f7", "premature end"),
        ("a16161", "premature end"),
        ("0101", "something follows"),
        ("a2616101616102", "Duplicate map key"),
        ("a2416101616102", "duplicate map key"),
        ("bf616101ff", "indefinite length"),
        ("9f01ff", "indefinite length"),
        ("7f6161ff", "indefinite length"),
        ("5f4161ff", "indefinite length"),
        ("a10102", "key"),
        ("a1f602", "key"),
        ("a1800102", "key"),
        ("61ff", "invalid UTF-8"),
        ("41ff", "invalid UTF-8"),
        ("a141ff01", "invalid UTF-8"),
        ("1bffffffffffffffff", "int64"),
        ("3bffffffffffffffff", "int64"),
        ("c249010000000000000000", "64 bits"),
        ("f97e00", "no number"),
        ("f97c00", "no number"),
        ("f7", "UndefinedType"),
        ("e0", "CBORSimpleValue"),
        ("c1fb3ff8000000000000", "whole seconds"),
        ("c11b00ffffffffffffff", "whole seconds"),
        ("c16161", "whole seconds"),
        ("d81c81d81d00", "reference"),
        ("d81d00", "reference"),
        ("d901008263616161d81900", "reference"),
        ("1c", ""),
        ("ff", ""),
        ("9bffffffffffffffff", ""),
        ("bbffffffffffffffff", ""),
        ("7b7fffffffffffffff", ""),
        ("9a7fffffff", ""),
        ("81" * 100_000 + "01", "depth"),
        ("a16161" * 100_000 + "01", "depth"),
        ("d9d9f7" * 100_000 + "01", "depth"),
        ("d9270f" * 100_000 + "01", "depth"),
    ],
)
def test_what_is_refused(hexed: str, why: str):
    with pytest.raises(DecodeError) as refused:
        cbor.decode(bytes.fromhex(hexed))
    text = str(refused.value)
    assert text.startswith("cbor: ")
    assert why in text
    assert "\n" not in text
    assert len(text) < 300


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256, 65_535, 65_536])
def test_a_list_of_any_length(count: int):
    item = cbor.from_json(b'{"n":"x"}').removeprefix(cbor.SELF_DESCRIBED)
    data = cbor.list_head(b'{"kind":"L","metadata":{"resourceVersion":"1"},"items":[]}', count) + item * count
    assert cbor.decode(data) == {"kind": "L", "metadata": {"resourceVersion": "1"}, "items": [{"n": "x"}] * count}


def test_a_list_needs_its_items_last():
    with pytest.raises(ValueError, match="items"):
        cbor.list_head(b'{"items":[],"kind":"L"}', 0)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xa1\x61a\xff", "break code encountered where a data item was expected, at byte 4"),
        (b"\xa1\x61a\x01\x02", "something follows the value, at byte 4"),
        (b"\xa1\x61a\x62\xc3", ", at byte 5"),
        (b"\xa1\x61a\xa1\x61b\x82\x01\xf9\x7e\x00", "a.b[1]: nan is no number that an object can have"),
        (b"\xa1\x61a\xa1\x61b\x82\x01\x41\xff", "a.b[1]: invalid UTF-8 string"),
        (b"\xa1\xf6\x02", "map key must be a text string or byte string, not null, at byte 2"),
        (b"\xa1\x61a\xa1\x01\x02", "map key must be a text string or byte string, not int, at byte 5"),
        (b"\x81\x81\xf7", "[0][0]: an object can't have a value of type"),
    ],
)
def test_the_place_of_what_is_wrong(data: bytes, why: str):
    with pytest.raises(DecodeError) as refused:
        cbor.decode(data)
    assert why in str(refused.value)


def test_the_place_is_looked_for_in_small_bodies_only():
    with pytest.raises(DecodeError, match="stream"):
        cbor.decode(b"\x9a\x00\x00\xff\xff" + b"\x01" * 65_534)
    with pytest.raises(DecodeError) as refused:
        cbor.decode(b"\x9a\x00\x01\xff\xff" + b"\x01" * 65_536)
    assert "at byte" not in str(refused.value)
