"""Wrong JSON types in a body are all told, each with its path, in JSON's terms."""

from __future__ import annotations

import json
from typing import Any

import pytest

SPEC = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer", "format": "int32"},
        "big": {"type": "integer", "format": "int64"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "name": {"type": "string"},
        "names": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "inner": {"type": "object", "properties": {"a": {"type": "string"}}},
        "port": {"x-kubernetes-int-or-string": True},
        "amount": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"},
        "when": {"type": "string", "format": "date-time"},
        "blob": {"type": "string", "format": "byte"},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
    },
}

CASES = [
    ({"spec": "x"}, "spec: expected an object, got a string"),
    ({"spec": {"replicas": "x"}}, "spec.replicas: expected an integer, got a string"),
    ({"spec": {"replicas": 1.5}}, "spec.replicas: expected an integer, got 1.5"),
    (
        {"spec": {"replicas": 2**31}},
        "spec.replicas: expected an integer from -2147483648 to 2147483647, got 2147483648",
    ),
    ({"spec": {"replicas": True}}, "spec.replicas: expected an integer, got true"),
    (
        {"spec": {"big": 2**63}},
        "spec.big: expected an integer from -9223372036854775808 to 9223372036854775807, got 9223372036854775808",
    ),
    ({"spec": {"ratio": "x"}}, "spec.ratio: expected a number, got a string"),
    ({"spec": {"on": 1}}, "spec.on: expected true or false, got a number"),
    ({"spec": {"name": 5}}, "spec.name: expected a string, got a number"),
    ({"spec": {"name": "x" * 65, "on": []}}, "spec.on: expected true or false, got an array"),
    ({"spec": {"on": "x" * 65}}, "spec.on: expected true or false, got a string"),
    ({"spec": {"names": {}}}, "spec.names: expected an array, got an object"),
    ({"spec": {"names": ["a", 1]}}, "spec.names[1]: expected a string, got a number"),
    ({"spec": {"map": []}}, "spec.map: expected an object, got an array"),
    ({"spec": {"map": {"a": 1}}}, "spec.map[a]: expected a string, got a number"),
    ({"spec": {"inner": {"a": 1}}}, "spec.inner.a: expected a string, got a number"),
    ({"spec": {"port": True}}, "spec.port: expected an integer or a string, got true"),
    ({"spec": {"amount": 1.5}}, "spec.amount: expected an integer or a string, got a number"),
    ({"spec": {"when": 1}}, "spec.when: expected a string, got a number"),
    ({"spec": {"when": "noon"}}, 'spec.when: expected a time such as "2006-01-02T15:04:05Z", got "noon"'),
    ({"spec": {"blob": "a*bc"}}, "spec.blob: illegal base64 data at input byte 1"),
    ({"metadata": []}, "metadata: expected an object, got an array"),
    ({"metadata": {"labels": {"a": 1}}}, "metadata.labels[a]: expected a string, got a number"),
    ({"metadata": {"uid": 1}}, "metadata.uid: expected a string, got a number"),
    ({"metadata": {"finalizers": "x"}}, "metadata.finalizers: expected an array, got a string"),
    (
        {"metadata": {"ownerReferences": [{"controller": "x"}]}},
        "metadata.ownerReferences[0].controller: expected true or false, got a string",
    ),
]


@pytest.mark.parametrize(("tree", "expected"), CASES)
def test_the_text_names_field_and_type(compiled: Any, tree: Any, expected: str) -> None:
    assert [error.message for error in compiled(SPEC).type_errors(tree)] == [expected]


def test_all_mistakes_are_told_in_the_order_of_the_document(compiled: Any) -> None:
    found = compiled(SPEC).type_errors({"spec": {"name": 1, "replicas": "x"}, "metadata": 1})
    assert [error.path for error in found] == ["spec.name", "spec.replicas", "metadata"]


def test_what_else_is_wrong_is_told_with_them(compiled: Any) -> None:
    spec = {**SPEC, "required": ["name"]}
    found = compiled(spec).type_errors({"spec": {"replicas": "x", "names": None}})
    assert [error.message for error in found][1:] == ["spec.name: Required value"]


def test_a_body_of_nothing_but_mistakes_is_not_answered_with_all_of_them(compiled: Any) -> None:
    assert len(compiled(SPEC).type_errors({"spec": {"names": [1] * 5000}})) == 1000


def test_what_was_refused_by_the_sample_server_is_refused(golden: Any, compiled: Any) -> None:
    exchange = next(row for row in golden if row["id"] == 109)
    found = compiled(SPEC).type_errors(json.loads(exchange["request"]["body"]))
    assert [error.message for error in found] == ["metadata.labels: expected an object, got an array"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        None,
        {"replicas": None, "names": None, "map": None, "inner": None, "when": None, "port": None, "on": None},
        {"names": [None], "map": {"a": None}},
        {"replicas": -1, "ratio": 1, "on": False, "port": "80%", "when": "2026-11-20T13:11:09.5+02:00", "blob": "YQ=="},
        {"any": [1, {"x": None}], "unknown": 7},
    ],
)
def test_what_fits(compiled: Any, spec: Any) -> None:
    assert compiled(SPEC).type_errors({"metadata": {"creationTimestamp": None}, "spec": spec}) == []


def test_of_a_custom_resource_only_metadata_is_decoded(compiled: Any) -> None:
    version = compiled(SPEC, typed=False)
    assert version.type_errors({"metadata": {}, "spec": 5}) == []
    found = version.type_errors({"metadata": {"labels": []}, "spec": {}})
    assert [error.path for error in found] == ["metadata.labels"]
