"""Trees that nobody means well: deep, huge, of the wrong types everywhere. Nothing may crash or take long."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta.fielderrors import FieldError
from oarlock.schema.compiled import SchemaError
from oarlock.schema.structural import formats
from oarlock.schema.structural.nodes import parse
from oarlock.schema.structural.patterns import CompiledPattern, PatternError

EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
ITEM = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "value": {"type": "integer", "format": "int32"}},
    "required": ["name"],
}
SPEC: Any = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "pattern": "^(a+)+$", "minLength": 1},
        "number": {"type": "number", "minimum": 0, "maximum": 10, "multipleOf": 0.5},
        "whole": {"type": "integer", "format": "int32", "enum": [1, 2]},
        "keyed": {
            "type": "array",
            "items": ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 5},
        "map": {"type": "object", "additionalProperties": ITEM, "maxProperties": 3},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "when": {"type": "string", "format": "date-time"},
        "template": EMBEDDED,
        "free": {"x-kubernetes-preserve-unknown-fields": True},
    },
}

NUMBERS = st.integers() | st.floats() | st.sampled_from([2**63, -(2**63) - 1, 10**400, math.inf, math.nan, -0.0])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "value", "apiVersion", "kind", "metadata", "labels"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
TREES = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.dictionaries(st.sampled_from(["name", "labels", "finalizers", "ownerReferences"]), VALUES),
        "spec": VALUES | st.dictionaries(st.sampled_from(sorted(SPEC["properties"])), VALUES),
        "other": VALUES,
    },
)


@pytest.mark.slow
@given(TREES, st.booleans())
def test_any_tree_is_answered(compiled: Any, tree: Any, typed: bool) -> None:
    version = compiled(SPEC, typed=typed)
    old = copy.deepcopy(tree)
    assert all(isinstance(error, FieldError) and error.cause()["message"] for error in version.type_errors(tree))
    assert all(isinstance(path, str) for path in version.prune(tree))
    version.normalize(tree)
    version.default(tree)
    found = version.validate(tree)
    assert all(isinstance(error, FieldError) and error.cause()["message"] for error in found)
    assert len(version.validate(tree, old)) <= len(found)
    version.selectable_values(tree)


@pytest.mark.slow
@given(VALUES)
def test_any_value_at_the_root_is_answered(compiled: Any, tree: Any) -> None:
    version = compiled(SPEC)
    version.type_errors(tree)
    version.prune(tree)
    version.normalize(tree)
    version.default(tree)
    version.validate(tree)


def deep(levels: int, leaf: Any = None) -> Any:
    for _ in range(levels):
        leaf = {"a": [leaf]}
    return leaf


@pytest.mark.slow
@pytest.mark.parametrize("where", ["free", "unknown", "set", "keyed", "map", "text", "template"])
def test_deep_trees(compiled: Any, where: str) -> None:
    tree = {"metadata": {}, "spec": {where: deep(5_000)}}
    version = compiled(SPEC, typed=False)
    version.type_errors(tree)
    version.prune(tree)
    version.normalize(tree)
    version.default(tree)
    version.validate(tree, {"metadata": {}, "spec": {where: deep(5_000, 1)}})


def test_deep_values_in_a_set(compiled: Any) -> None:
    anything = {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}
    version = compiled({"type": "object", "properties": {"set": {**anything, "x-kubernetes-list-type": "set"}}})
    version.validate({"metadata": {}, "spec": {"set": [deep(5_000), deep(5_000)]}})


def test_patterns_take_linear_time(compiled: Any) -> None:
    text = "a" * 100_000 + "!"
    found = compiled(SPEC).validate({"metadata": {}, "spec": {"text": text}})
    assert [error.path for error in found] == ["spec.text"]


def test_patterns_remember_little() -> None:
    pattern = CompiledPattern("^[a-z0-9]*$")
    for i in range(5000):
        assert pattern.found_in(f"x{i}")
    assert len(pattern._matched) <= 512
    assert not pattern.found_in("X")
    assert pattern.found_in("x1")
    assert not pattern.found_in("\ud800")


@pytest.mark.parametrize("source", ["(", "[a", "a**", "(?=a)", "x{2000}", "\\8", "*", "(?P<n>", "\ud800"])
def test_bad_patterns_are_told(source: str) -> None:
    with pytest.raises(PatternError, match="error parsing regexp: "):
        CompiledPattern(source)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"type": 5},
        {"type": "nope"},
        {"properties": []},
        {"properties": {"a": None}},
        {"items": [{"type": "string"}]},
        {"minimum": "1"},
        {"minLength": -1},
        {"maxItems": 1.5},
        {"required": "a"},
        {"required": [1]},
        {"anyOf": {}},
        {"allOf": [1]},
        {"nullable": "yes"},
    ],
)
def test_malformed_schemas_are_refused_with_their_path(schema: Any) -> None:
    with pytest.raises(SchemaError):
        parse(schema)


def test_a_schema_that_is_not_structural_is_refused(compiled: Any) -> None:
    with pytest.raises(SchemaError, match="must not be empty for specified object fields"):
        compiled({"type": "object", "properties": {"a": {}}})


FORMATS = [
    ("date", ["2026-11-20"], ["2026-13-01", "20261120", "x"]),
    ("date-time", ["2026-11-20T13:11:09Z", "2026-11-20T13:11:09.123+02:00"], ["2026-11-20", "x", "9" * 500]),
    ("duration", ["1h30m", "1.5s", "-2ms", "3 days", "0"], ["x", "1 fortnight"]),
    ("ipv4", ["1.2.3.4"], ["1.2.3", "01.2.3.4", "::1"]),
    ("ipv6", ["::1", "fe80::1"], ["1.2.3.4", "fe80::1%eth0"]),
    ("cidr", ["10.0.0.0/8", "::/0"], ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/99999999999"]),
    ("mac", ["01:23:45:67:89:ab", "0123.4567.89ab"], ["01:23"]),
    ("uuid", ["d7ae9a9e-993d-4311-887a-23f02dd9bfc5"], ["d7ae"]),
    ("uuid4", ["d7ae9a9e-993d-4311-887a-23f02dd9bfc5"], ["d7ae9a9e-993d-5311-887a-23f02dd9bfc5"]),
    ("hostname", ["example.com", "a"], ["-a", "a..b", "a" * 300]),
    ("email", ["a@example.com"], ["a", "a@", "@b", "a b@c"]),
    ("uri", ["https://example.com/x?y", "/path"], ["x", "http://a b", "%zz:"]),
    ("byte", ["YQ==", ""], ["a*", "YQ"]),
    ("isbn", ["0-306-40615-2", "978-0-306-40615-7"], ["0-306-40615-3", "x"]),
    ("creditcard", ["4111 1111 1111 1111"], ["4111 1111 1111 1112"]),
    ("ssn", ["111-22-3333"], ["1-2-3"]),
    ("hexcolor", ["#fff", "a1b2c3"], ["#ff"]),
    ("rgbcolor", ["rgb(1,2,3)"], ["rgb(1,2)", "rgb(1,2,300)"]),
    ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f"]),
    ("password", ["anything"], []),
    ("k8s-short-name", ["a-b"], ["a-", "a.b"]),
    ("k8s-long-name", ["a.b"], ["a.-"]),
]


@pytest.mark.parametrize(("name", "good", "bad"), FORMATS)
def test_formats(name: str, good: list[str], bad: list[str]) -> None:
    fits = formats.checker(name)
    assert fits is not None
    assert [text for text in good if not fits(text)] == []
    assert [text for text in bad if fits(text)] == []


@given(st.text())
def test_formats_take_any_text(text: str) -> None:
    for name, _good, _bad in FORMATS:
        fits = formats.checker(name)
        assert fits is not None
        assert fits(text) in (True, False)
