"""YAML by the rules of go-yaml v2, as Kubernetes reads and writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.codec import yaml
from oarlock.codec.yaml import DecodeError
from oarlock.codec.yaml_writer import ordered

Vectors = Callable[[str], Any]

# Of the shared table `yaml_split` is left out: it is the splitting of streams of documents, which bodies are not.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("y", True),
        ("TRUE", True),
        ("~", None),
        ("null", None),
        ("", None),
        ("0777", 511),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", 3),
        ("-0b11", -3),
        ("1_000", 1000),
        ("+12", 12),
        ("08", 8),
        ("1e3", 1000),
        ("1.0", 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1),
        ("123456789012345678901", 1.2345678901234568e20),
        ("2001-01-01", "2001-01-01"),
        ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"),
        ("12:30:45", "12:30:45"),
        ("=", "="),
        ("'yes'", "yes"),
        ('"0777"', "0777"),
        ("!!str 1", "1"),
        ("!!int '3'", 3),
        ("!!binary aGk=", "hi"),
        ("!mine x", "x"),
        ("_1", "_1"),
        ("1e400", "1e400"),
        ("٣", "٣"),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    tree, duplicates = yaml.decode(f"a: {text}\n".encode())
    assert tree == {"a": value}
    assert type(tree["a"]) is type(value)
    assert duplicates == []


def test_keys_are_strings() -> None:
    assert yaml.decode(b"1: a\ntrue: b\n1.5: c\nno: d\n0x10: e\n")[0] == {
        "1": "a",
        "true": "b",
        "1.5": "c",
        "false": "d",
        "16": "e",
    }


def test_blocks_anchors_and_merges() -> None:
    text = b"""
a: &x
  - 1
  - {b: c}
b: *x
c: |
  line
  line
d: >-
  folded
  text
base: &base {p: 1, q: 2}
merged:
  <<: *base
  q: 3
list:
  <<: [{r: 1}, *base]
"""
    tree, duplicates = yaml.decode(text)
    assert tree["b"] == [1, {"b": "c"}]
    assert tree["b"] is not tree["a"]
    assert tree["c"] == "line\nline\n"
    assert tree["d"] == "folded text"
    assert tree["merged"] == {"p": 1, "q": 3}
    assert tree["list"] == {"r": 1, "p": 1, "q": 2}
    assert duplicates == []


def test_only_the_first_document_counts() -> None:
    assert yaml.decode(b"---\na: 1\n---\n]]]")[0] == {"a": 1}
    assert yaml.decode(b"")[0] is None
    assert yaml.decode(b"# nothing\n")[0] is None


def test_duplicate_keys_are_reported_and_the_last_counts() -> None:
    tree, duplicates = yaml.decode(b"a: 1\na: 2\nb:\n  c: 1\n  c:\n    d: 1\n")
    assert tree == {"a": 2, "b": {"c": {"d": 1}}}
    assert duplicates == ['line 2: key "a" already set in map', 'line 6: key "c" already set in map']
    assert yaml.decode(b'{"a":1,"a":2}') == ({"a": 2}, ['line 1: key "a" already set in map'])


def test_documents_of_the_tables(shared_vectors: Vectors) -> None:
    groups = shared_vectors("misc.json")["groups"]
    for case in groups["yaml_or_json"]:
        # A body is one document, not a stream: the first one of each case, and not the sniffing of buffers.
        if case["err"] or (case["isJSON"] and len(case["out"]) > 1):
            continue
        expected = [{k: v for k, v in one.items() if k != "$type"} for one in case["out"]]
        assert yaml.decode(case["input"].encode())[0] == (expected[0] if expected else None), case
    for case in groups["decode"]:
        if case.get("yaml"):
            words = (case.get("errFn") or {}).get("$func", "")
            duplicates = yaml.decode(case["data"].encode())[1]
            assert bool(duplicates) is ("already set in map" in words), case


def test_json_is_read_as_yaml_reads_it() -> None:
    assert yaml.decode(b'{"a": 1.0, "b": [1e3, 1.5], "c": "yes"}')[0] == {"a": 1, "b": [1000, 1.5], "c": "yes"}
    assert type(yaml.decode(b'{"a": 1.0}')[0]["a"]) is int
    assert yaml.decode(b"{a: yes, b: [x, 1]}")[0] == {"a": True, "b": ["x", 1]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: [b\n", "yaml: line 1: did not find expected ',' or ']'"),
        (b"a: b: c", "yaml: mapping values are not allowed in this context"),
        (b"a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed in this context"),
        (b"\tx: 1", "yaml: found character that cannot start any token"),
        (b"a: &a [*a]", "yaml: anchor 'a' value contains itself"),
        (b"a: *nope", "yaml: unknown anchor 'nope' referenced"),
        (b"a: .inf", "json: unsupported value: +Inf"),
        (b"a: -.Inf", "json: unsupported value: -Inf"),
        (b"a: .nan", "json: unsupported value: NaN"),
        (b"a: !!int x", "yaml: cannot decode `x` as a !!int"),
        (b"a: !!binary '*'", None),
        (b"~: 1", "unsupported map key of type: %!s(<nil>)"),
        (b"{a: b}: 1", "yaml: invalid map key: a map in line 1"),
        (b"? [1]\n: 2", "yaml: invalid map key: a list in line 1"),
        (b"k: &a [1]\n? *a\n: 2", "yaml: invalid map key: anchor 'a'"),
        (b"<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
        (b"a: \x01", "yaml: control characters are not allowed"),
        (b'"\xff"', "yaml: invalid leading UTF-8 octet"),
        (b"[" * 100_000, "yaml: exceeded max depth"),
        (b"- " * 50_000, "yaml: exceeded max depth"),
        (b"{a: " * 100_000, "yaml: exceeded max depth"),
    ],
)
def test_what_is_refused(data: bytes, message: str | None) -> None:
    with pytest.raises(DecodeError) as caught:
        yaml.decode(data)
    if message is not None:
        assert str(caught.value) == f"error converting YAML to JSON: {message}"


def test_aliases_cannot_explode() -> None:
    bomb = b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    for i in range(1, 10):
        bomb += b"a%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 9))
    with pytest.raises(DecodeError, match="document contains excessive aliasing"):
        yaml.decode(bomb)
    merges = b"a0: &a0 {k: 1}\n" + b"".join(
        b"a%d: &a%d {k: [*a%d, *a%d]}\n" % (i, i, i - 1, i - 1) for i in range(1, 40)
    )
    with pytest.raises(DecodeError, match="document contains excessive aliasing"):
        yaml.decode(merges)


def test_aliases_cannot_nest_too_deeply() -> None:
    deep = b"a: &a " + b"[" * 150 + b"]" * 150 + b"\nb: " + b"[" * 100 + b"*a" + b"]" * 100 + b"\n"
    with pytest.raises(DecodeError, match="exceeded max depth"):
        yaml.decode(deep)


# Writing ------------------------------------------------------------------------------------------


def test_the_recorded_answers(golden: list[dict[str, Any]]) -> None:
    seen = 0
    for exchange in golden:
        response = exchange.get("response") or {}
        if ["Content-Type", "application/yaml"] not in response.get("headers", []):
            continue
        body = response["body"].encode()
        tree, _ = yaml.decode(body)
        assert yaml.encode(tree) == body, exchange["desc"]
        seen += 1
    assert seen


def test_writing() -> None:
    tree = {
        "a10": 1,
        "a2": "yes",
        "b": [],
        "c": {},
        "d": "x\ny\n",
        "e": None,
        "f": 1.5,
        "g": 1e16,
        "h": "2001-01-01",
        "i": "",
        "j": "a: b",
        "k": True,
        "l": [{"x": 1, "y": [1, 2]}, [3]],
        "m": "12:30",
        "n": "# x",
        "o": "é",
        "p": "-",
        "q": " lead",
        "r": "0x1",
        "s": "<<",
    }
    assert yaml.encode(tree).decode() == (
        'a2: "yes"\na10: 1\nb: []\nc: {}\nd: |\n  x\n  y\ne: null\nf: 1.5\ng: 10000000000000000\n'
        'h: "2001-01-01"\ni: ""\nj: \'a: b\'\nk: true\nl:\n- x: 1\n  "y":\n  - 1\n  - 2\n- - 3\n'
        'm: "12:30"\n"n": \'# x\'\no: é\np: \'-\'\nq: \' lead\'\nr: "0x1"\ns: "<<"\n'
    )
    assert yaml.encode("x") == b"x\n"
    assert yaml.encode([]) == b"[]\n"


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "b", "c"],
        ["a2", "a10"],
        ["a-b", "ab"],
        ["a1b", "a12"],
        ["1", "2", "10", "a"],
        ["", "a"],
        ["a1", "a01"],
        ["apiVersion", "kind", "metadata", "spec"],
        ["f:a", "f:b", "k:{}"],
    ],
)
def test_the_order_of_keys(keys: list[str]) -> None:
    assert ordered(reversed(keys)) == keys


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.just("\n"), max_size=12)
TRICKY = st.sampled_from(["yes", "0777", "1e3", "~", "12:30", "- a", "a: b", "2001-01-01", "#", "!x", "&a", "*a", "%"])
# A whole float beyond 2^53 is read again as the integer of its digits.
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer() or abs(x) < 2**53)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXTS | TRICKY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(TREES)
def test_what_is_written_is_read_again(tree: Any) -> None:
    assert yaml.decode(yaml.encode(tree)) == (tree, [])


SYMBOLS = st.text(alphabet="ab:-?[]{},&*!|>'\"%@` #~<\n\t1.", max_size=24).map(str.encode)


def _refusal(data: bytes) -> str | None:
    try:
        yaml.decode(data)
    except DecodeError as error:
        return str(error)
    return None


@given(st.binary(max_size=24) | SYMBOLS)
def test_any_bytes_are_a_tree_or_an_error(data: bytes) -> None:
    refusal = _refusal(data)
    assert refusal is None or refusal.startswith("error converting YAML to JSON: ")
