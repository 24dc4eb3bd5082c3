"""Wrong JSON types in a body are refused in the words of Go's decoder."""

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
        "when": {"type": "string", "format": "date-time"},
        "blob": {"type": "string", "format": "byte"},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
    },
}

CASES = [
    ({"spec": "x"}, "json: cannot unmarshal string into Go struct field Thing.spec of type v1.ThingSpec"),
    ({"spec": {"replicas": "x"}}, "string into Go struct field ThingSpec.spec.replicas of type int32"),
    ({"spec": {"replicas": 1.5}}, "number 1.5 into Go struct field ThingSpec.spec.replicas of type int32"),
    ({"spec": {"replicas": 2**31}}, "number 2147483648 into Go struct field ThingSpec.spec.replicas of type int32"),
    ({"spec": {"replicas": True}}, "bool into Go struct field ThingSpec.spec.replicas of type int32"),
    ({"spec": {"big": 2**63}}, "number 9223372036854775808 into Go struct field ThingSpec.spec.big of type int64"),
    ({"spec": {"ratio": "x"}}, "string into Go struct field ThingSpec.spec.ratio of type float64"),
    ({"spec": {"on": 1}}, "number into Go struct field ThingSpec.spec.on of type bool"),
    ({"spec": {"name": 5}}, "number into Go struct field ThingSpec.spec.name of type string"),
    ({"spec": {"names": {}}}, "object into Go struct field ThingSpec.spec.names of type []string"),
    ({"spec": {"names": ["a", 1]}}, "number into Go struct field ThingSpec.spec.names of type string"),
    ({"spec": {"map": []}}, "array into Go struct field ThingSpec.spec.map of type map[string]string"),
    ({"spec": {"map": {"a": 1}}}, "number into Go struct field ThingSpec.spec.map of type string"),
    ({"spec": {"inner": {"a": 1}}}, "number into Go struct field Inner.spec.inner.a of type string"),
    ({"spec": {"port": True}}, "json: cannot unmarshal bool into Go value of type int32"),
    ({"spec": {"when": 1}}, "json: cannot unmarshal number into Go value of type string"),
    ({"spec": {"when": "noon"}}, 'parsing time "noon" as "2006-01-02T15:04:05Z07:00"'),
    ({"spec": {"blob": "a*bc"}}, "illegal base64 data at input byte 1"),
    ({"metadata": []}, "array into Go struct field Thing.metadata of type v1.ObjectMeta"),
    ({"metadata": {"labels": {"a": 1}}}, "number into Go struct field ObjectMeta.metadata.labels of type string"),
    ({"metadata": {"uid": 1}}, "number into Go struct field ObjectMeta.metadata.uid of type types.UID"),
    ({"metadata": {"finalizers": "x"}}, "string into Go struct field ObjectMeta.metadata.finalizers of type []string"),
    (
        {"metadata": {"ownerReferences": [{"controller": "x"}]}},
        "string into Go struct field OwnerReference.metadata.ownerReferences.controller of type bool",
    ),
]


@pytest.mark.parametrize(("tree", "expected"), CASES)
def test_the_text_names_field_and_type(compiled: Any, tree: Any, expected: str) -> None:
    found = compiled(SPEC).type_error(tree)
    assert found is not None
    assert expected in found


def test_the_first_mistake_of_the_document_is_told(compiled: Any) -> None:
    assert "spec.name " in compiled(SPEC).type_error({"spec": {"name": 1, "replicas": "x"}, "metadata": 1})


def test_a_recorded_refusal(golden: Any, compiled: Any) -> None:
    exchange = next(row for row in golden if row["id"] == 109)
    message = json.loads(exchange["response"]["body"])["message"]
    assert message.endswith(compiled(SPEC).type_error(json.loads(exchange["request"]["body"])))


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
    assert compiled(SPEC).type_error({"metadata": {"creationTimestamp": None}, "spec": spec}) is None


def test_of_a_custom_resource_only_metadata_is_decoded(compiled: Any) -> None:
    version = compiled(SPEC, typed=False)
    assert version.type_error({"metadata": {}, "spec": 5}) is None
    assert "ObjectMeta.metadata.labels" in version.type_error({"metadata": {"labels": []}, "spec": {}})


def test_the_type_name_can_be_said(compiled: Any) -> None:
    spec = {"type": "object", "x-oarlock-go-type": "core.Special", "properties": {"a": {"type": "string"}}}
    assert "Special.spec.a of type string" in compiled(spec).type_error({"spec": {"a": 1}})
    assert "of type core.Special" in compiled(spec).type_error({"spec": 1})
