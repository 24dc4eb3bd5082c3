"""YAML aliases have a budget in nodes and in bytes of JSON, whatever they stand in for: values, keys, merged maps."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.codec import json, yaml
from oarlock.codec.errors import DecodeError
from oarlock.codec.yaml_reader import MAX_ALIASED_BYTES, MAX_ALIASED_NODES

EXCESSIVE = "excessive aliasing"
MEGABYTE = b"x" * 1_000_000


@pytest.mark.parametrize(
    "data",
    [
        b"a: &a " + MEGABYTE + b"\nb: [" + b"*a, " * 20_000 + b"1]\n",
        b"a: &a " + MEGABYTE + b"\nb:\n" + b"".join(b"  k%d: *a\n" % i for i in range(5000)),
        b"a: &a [" + MEGABYTE + b"]\nb: [" + b"*a, " * 20_000 + b"1]\n",
        b"a: &a {k: " + MEGABYTE + b"}\nb:\n" + b"- <<: *a\n" * 5000,
        b"a: &a {k: " + MEGABYTE + b"}\nb:\n" + b"- <<: [*a, *a]\n" * 5000,
        b"a: &a " + b"x" * 1000 + b"\nb:\n" + b"- ? *a\n  : 1\n" * 10_000,
        b'a: &a "' + b"\\x01" * 100_000 + b'"\nb: [' + b"*a, " * 20_000 + b"1]\n",
        b"a: &a " + "\u20ac".encode() * 300_000 + b"\nb: [" + b"*a, " * 20_000 + b"1]\n",
        b"a0: &a0 [" + b"x" * 1000 + b"]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 20)),
    ],
)  # fmt: skip
def test_what_expands_too_far_is_refused_before_it_is_built(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match=EXCESSIVE):
            yaml.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(data) + 4 * MAX_ALIASED_BYTES
    finally:
        tracemalloc.stop()


def test_nodes_are_counted_too() -> None:
    anchored = b"a: &a [" + b"0, " * 999 + b"0]\n"
    few, many = (anchored + b"b: [" + b"*a, " * count + b"1]\n" for count in (99, 101))
    assert 99 * 1001 < MAX_ALIASED_NODES < 101 * 1001
    assert len(yaml.decode(few)[0]["b"]) == 100
    with pytest.raises(DecodeError, match=EXCESSIVE):
        yaml.decode(many)


def test_what_fits_the_budget_is_read() -> None:
    text = b"x" * 1000
    tree, _ = yaml.decode(b"a: &a " + text + b"\nb: [" + b"*a, " * 1000 + b"1]\nc: {<<: {d: *a}}\n")
    assert tree["b"] == [text.decode()] * 1000 + [1]
    assert tree["c"] == {"d": text.decode()}


def test_an_anchor_may_be_named_again_and_again() -> None:
    data = b"".join(b"- &a %s\n- *a\n" % (b"x" * 1000) for _ in range(2000))
    assert len(yaml.decode(data)[0]) == 4000


def test_a_hundred_duplicate_keys_are_told() -> None:
    tree, duplicates = yaml.decode(b"a: 1\n" * 5000)
    assert tree == {"a": 1}
    assert len(duplicates) == 100


SCALARS = st.sampled_from(["x", "1", "yes", '"\\x01"', "\u20ac" * 9, "'a b'", "LONG"])
NODES = st.recursive(
    st.tuples(st.sampled_from(["", "&a ", "&b "]), SCALARS).map("".join) | st.sampled_from(["*a", "*b"]),
    lambda inner: (
        st.tuples(st.sampled_from(["", "&a ", "&b "]), st.lists(inner, max_size=5).map(", ".join)).map(
            lambda pair: f"{pair[0]}[{pair[1]}]"
        )
        | st.lists(inner, max_size=4).map(
            lambda values: "{" + ", ".join(f"k{i} : {value}" for i, value in enumerate(values)) + "}"
        )
    ),
    max_leaves=60,
)


@pytest.mark.slow
@given(st.lists(NODES, min_size=1, max_size=30))
def test_no_document_becomes_more_than_its_bytes_and_the_budget(nodes: list[str]) -> None:
    data = "".join(f"- {node}\n" for node in ["&a 1", "&b 2", *nodes]).replace("LONG", "z" * 40_000).encode()
    try:
        tree, _ = yaml.decode(data)
    except DecodeError:
        return
    assert len(json.encode(tree)) <= 6 * len(data) + MAX_ALIASED_BYTES
