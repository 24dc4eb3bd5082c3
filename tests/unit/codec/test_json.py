"""JSON: what is read, what is refused in Go's words, how it is written."""

from __future__ import annotations

import json as stdlib_json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.codec import json
from oarlock.codec.json import DecodeError
from oarlock.meta.go.gotext import syntax_error

Vectors = Callable[[str], Any]

CONSTANTS = {
    "math.MaxInt32": 2**31 - 1,
    "math.MinInt32": -(2**31),
    "math.MaxInt64": 2**63 - 1,
    "math.MinInt64": -(2**63),
    "9223372036854775808": float(2**63),
    "math.MaxFloat32": 3.40282346638528859811704183484516925440e38,
    "math.SmallestNonzeroFloat32": 1.401298464324817070923729583289916131280e-45,
    "math.MaxFloat64": 1.797693134862315708145274237317043567981e308,
    "math.SmallestNonzeroFloat64": 5e-324,
}


def _constant(tree: Any) -> Any:
    return CONSTANTS[tree["$go"]] if isinstance(tree, dict) and "$go" in tree else tree


def test_types_and_numbers(shared_vectors: Vectors) -> None:
    for case in shared_vectors("misc.json")["groups"]["json_types"]:
        if isinstance(case["In"], dict):
            continue  # a list of all the other cases, written as a Go expression
        data = case["In"].encode()
        if case.get("Err"):
            with pytest.raises(DecodeError):
                json.decode(data)
            continue
        tree = json.decode(data)
        assert tree == _constant(case["Data"]), case
        out = case["Out"]
        if isinstance(out, dict):  # formatted by Go's 'g', which agrees on the value
            assert float(json.encode(tree)) == _constant(out["args"][0])
        else:
            assert json.encode(tree) == out.encode(), case


def test_what_the_serializer_reads(shared_vectors: Vectors) -> None:
    """Of the table of Go's serializer: syntax and duplicates. Kinds and unknown fields are others' business."""
    seen = 0
    for case in shared_vectors("misc.json")["groups"]["decode"]:
        words = (case.get("errFn") or {}).get("$func", "")
        data = case["data"].encode()
        if case.get("yaml"):
            continue
        if "parse error" in words or "cannot unmarshal number" in words:
            with pytest.raises(DecodeError):
                json.decode(data)
        else:
            assert json.decode(data) == stdlib_json.loads(data)
            assert json.duplicates(data) == (["value"] if "duplicate field" in words else [])
        seen += 1
    assert seen > 50


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b'"abc', "unexpected end of JSON input"),
        (b"tru", "unexpected end of JSON input"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"foo", "invalid character 'o' in literal false (expecting 'a')"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
        (b'{"a":1}x', "invalid character 'x' after top-level value"),
        (b"{}\n{}", "invalid character '{' after top-level value"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"01", "invalid character '1' after top-level value"),
        (b"[1.]", "invalid character ']' after decimal point in numeric literal"),
        (b"[1e]", "invalid character ']' in exponent of numeric literal"),
        (b"[-]", "invalid character ']' in numeric literal"),
        (b"nul!", "invalid character '!' in literal null (expecting 'l')"),
        (b'"\n"', "invalid character '\\n' in string literal"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        (b"'a'", "invalid character '\\'' looking for beginning of value"),
        (b"\xef\xbb\xbf{}", "invalid character 'ï' looking for beginning of value"),
        (b"1E400", "json: cannot unmarshal number 1E400 into Go value of type float64"),
        (b'{"a":' + b"9" * 400 + b"}", "json: cannot unmarshal number " + "9" * 400 + " into Go value of type float64"),
        (b'"\xff"', "invalid UTF-8 in string literal"),
        (b'"\xed\xa0\x80"', "invalid UTF-8 in string literal"),
        (b"[" * 201 + b"]" * 201, "exceeded max depth"),
        (b"[" * 100_000, "exceeded max depth"),
        (b'{"a":' * 100_000, "exceeded max depth"),
    ],
)
def test_what_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        json.decode(data)
    assert str(caught.value) == message


def test_a_large_broken_body_is_refused_without_a_second_look() -> None:
    with pytest.raises(DecodeError, match=r"^invalid JSON: "):
        json.decode(b"[" + b"1," * 100_000 + b"]")


def test_integers_beyond_64_bits_are_floats() -> None:
    tree = json.decode(
        b'{"a":[9223372036854775808,-9223372036854775809,9223372036854775807],"b":"9999999999999999999"}'
    )
    assert tree == {"a": [2.0**63, -(2.0**63), 2**63 - 1], "b": "9999999999999999999"}
    assert [type(one) for one in tree["a"]] == [float, float, int]


def test_the_deepest_that_is_allowed() -> None:
    tree = json.decode(b"[" * 200 + b"]" * 200)
    assert not json.depth_exceeds(tree, 200)
    assert json.depth_exceeds(tree, 199)


@pytest.mark.parametrize(
    ("tree", "data"),
    [
        ({"a": "<&>\u2028\u2029é\x7f"}, b'{"a":"\\u003c\\u0026\\u003e\\u2028\\u2029\xc3\xa9\x7f"}'),
        ({"a": '\x00\b\f\n"\\'}, b'{"a":"\\u0000\\b\\f\\n\\"\\\\"}'),
        ([1.0, 0.0, -0.0, 1e3, 0.5], b"[1,0,-0,1000,0.5]"),
        (
            [1e16, 1e20, 1e21, 1.5e300, 1e-7, 0.000001],
            b"[10000000000000000,100000000000000000000,1e+21,1.5e+300,1e-7,1e-6]",
        ),
        ({"v": "v1.0,x", "e": "1e16"}, b'{"v":"v1.0,x","e":"1e16"}'),
        (1.0, b"1"),
        ([True, False, None, -1], b"[true,false,null,-1]"),
        ({}, b"{}"),
    ],
)
def test_writing(tree: Any, data: bytes) -> None:
    assert json.encode(tree) == data


def test_what_has_no_json() -> None:
    for number in (math.inf, -math.inf, math.nan):
        # msgspec writes null for them; a tree never holds one, because no decoder lets one in.
        assert json.encode([number]) == b"[null]"
        assert json.encode([number, 1.0]) == b"[null,1]"
    with pytest.raises(UnicodeEncodeError):
        json.encode("\ud800")


def test_canonical_bytes_are_sorted() -> None:
    assert json.encode_canonical({"b": {"z": 1.0, "a": "<"}, "a": 1}) == b'{"a":1,"b":{"a":"\\u003c","z":1}}'


def test_pretty() -> None:
    expected = b'{\n  "a": [],\n  "b": {},\n  "c": [\n    1,\n    "\\u003c"\n  ]\n}'
    assert json.pretty(b'{"a":[],"b":{},"c":[1,"\\u003c"]}') == expected
    assert json.pretty({"a": [], "b": {}, "c": [1, "<"]}) == expected


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        (b'{"a":1}', []),
        (b'{ "a" : 1 , "b" : [ {} ] }', []),
        (b'{"a":"b:c\\":d","e":"::"}', []),
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"spec":{"replicas":1,"replicas":1}}', ["spec.replicas"]),
        (b'{"spec":{"c":[{"n":1},{"n":1,"n":1}]}}', ["spec.c[1].n"]),
        (b'[{"op":"add","op":"add"}]', ["[0].op"]),
        (b'{"a":1,"a":{"b":1,"b":2},"a":3}', ["a", "a.b"]),
        (b'{"a":1,"\\u0061":2}', ["a"]),
        # As many colons as without the duplicate: one is hidden in an escape.
        (b'{"a":"\\u003a","b":1,"b":1}', ["b"]),
        (b'{"a":"\\u003A","b":1,"b":1}', ["b"]),
    ],
)
def test_duplicate_fields(data: bytes, paths: list[str]) -> None:
    assert json.duplicates(data) == paths
    assert json.duplicates(data, json.decode(data)) == paths


def test_at_most_a_hundred_duplicates_are_reported() -> None:
    data = b"{" + b",".join(b'"k%d":1,"k%d":1' % (i, i) for i in range(300)) + b"}"
    assert len(json.duplicates(data)) == 100


# A whole float beyond 2^53 is written with the fewest digits, and read again as the integer they are.
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer() or abs(x) < 2**53)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(TREES)
def test_what_is_written_is_read_again(tree: Any) -> None:
    data = json.encode(tree)
    assert json.decode(data) == tree
    assert stdlib_json.loads(data) == tree
    assert stdlib_json.loads(json.pretty(data)) == tree
    assert json.duplicates(data) == []
    assert json.encode_canonical(json.decode(data)) == json.encode_canonical(tree)


def _reject(constant: str) -> Any:
    raise ValueError(constant)


def _strictly(data: bytes) -> Any:
    """What Python's own decoder reads, without what it lets through: lone surrogates, infinities. Else `...`."""
    try:
        tree = stdlib_json.loads(data.decode(), parse_constant=_reject)
        stdlib_json.dumps(tree, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        return ...
    return tree


def _ours(data: bytes) -> Any:
    try:
        return json.decode(data)
    except DecodeError:
        return ...


SYMBOLS = st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \\u\n', max_size=20).map(str.encode)


@given(st.binary(max_size=20) | SYMBOLS)
def test_any_bytes_are_a_tree_or_an_error(data: bytes) -> None:
    assert _ours(data) == _strictly(data)


@given(st.text(alphabet='{}[]",:01.eE+-truefalsn \\ux', max_size=16).map(str.encode))
def test_go_finds_fault_exactly_with_what_is_no_json(data: bytes) -> None:
    try:
        stdlib_json.loads(data, parse_constant=_reject)
        valid = True
    except ValueError:
        valid = False
    assert (syntax_error(data) == "") is valid


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    cases = {
        b'"\\ud800"': "\ufffd",
        b'"\\udc00x"': "\ufffdx",
        b'"\\uD800\\uD800\\uDC00"': "\ufffd\U00010000",
        b'"\\ud83d\\ude00\\ud83d"': "\U0001f600\ufffd",
        b'"\\\\ud800\\ud800"': "\\ud800\ufffd",
        b'"\\ud800\\u0041"': "\ufffdA",
        b'{"\\udfff":["\\udbff"]}': {"\ufffd": ["\ufffd"]},
    }
    for data, tree in cases.items():
        assert json.decode(data) == tree
        assert json.duplicates(data) == []
    assert json.duplicates(b'{"\\ud800":1,"\\udc00":2}') == ["\ufffd"]
    for data, message in (
        (b'"\\ud800', "unexpected end of JSON input"),
        (b"[" * 100_000 + b'"\\ud800"', "exceeded max depth"),
    ):
        with pytest.raises(DecodeError) as caught:
            json.decode(data)
        assert str(caught.value) == message


ESCAPES = st.lists(st.sampled_from(["\\ud800", "\\uDFFF", "\\udc00", "\\uDBFF", "\\u0041", "\\\\", "u", "d800", "\\n"]))


@given(ESCAPES)
def test_pythons_own_decoder_agrees_on_pairs(parts: list[str]) -> None:
    data = f'"{"".join(parts)}"'.encode()
    halves = stdlib_json.loads(data)
    assert json.decode(data) == "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in halves)


def test_an_object_given_twice_has_the_fields_of_both() -> None:
    data = b'{"m":{"l":{"a":"b"},"l":{"c":"d"}},"m":{"x":1},"n":[1],"n":[2],"o":{"p":1},"o":3,"q":99999999999999999999}'
    assert json.merged(data) == {"m": {"l": {"a": "b", "c": "d"}, "x": 1}, "n": [2], "o": 3, "q": 1e20}
    assert type(json.merged(data)["m"]) is dict


@given(TREES)
def test_what_has_no_duplicates_is_merged_to_itself(tree: Any) -> None:
    data = json.encode(tree)
    assert json.merged(data) == json.decode(data)


def test_the_path_of_a_duplicate_is_cut_where_nobody_reads_on() -> None:
    data = b'{"%s":{%s}}' % (b"k" * 500_000, b",".join([b'"a":1'] * 50_000))
    (path,) = json.duplicates(data)
    assert len(path) < 2000
    assert path.startswith("kkk")
    assert path.endswith("...")


@pytest.mark.parametrize(
    ("data", "unknown", "errors"),
    [
        (b'{"a": 1, "b": 2, "a": 3}', [], ['duplicate field "a"']),
        (
            b'{"x": 1, "a": 1, "a": 2, "y": 3}',
            ["x", "y"],
            ['unknown field "x"', 'duplicate field "a"', 'unknown field "y"'],
        ),
        (b'{"x": 1, "x": 2}', ["x"], ['unknown field "x"']),
        (b'{"x": {"a": 1, "a": 2}}', ["x"], ['unknown field "x"']),
        (
            b'{"s": {"l": [{"a": 1, "a": 1}, {"b": 1}, {"a": 1, "a": 2}]}, "s": {"c.d": 1}}',
            ["s.l[1].b", "s.c.d"],
            [
                *('duplicate field "s.l[0].a"', 'unknown field "s.l[1].b"', 'duplicate field "s.l[2].a"'),
                *('duplicate field "s"', 'unknown field "s.c.d"'),
            ],
        ),
        (b'{"b": {}, "s": {"b": 1, "b": 2}}', ["b"], ['unknown field "b"', 'duplicate field "s.b"']),
    ],
)
def test_strict_errors_are_in_the_order_of_the_text(data: bytes, unknown: list[str], errors: list[str]) -> None:
    assert json.strict_errors(data, unknown) == errors


def test_at_most_a_hundred_strict_errors_are_told() -> None:
    data = b"{" + b",".join(b'"a%d": 1, "a%d": 2' % (n, n) for n in range(500)) + b"}"
    assert len(json.strict_errors(data, ["a7"])) == 100
