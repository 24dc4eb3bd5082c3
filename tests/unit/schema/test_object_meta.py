"""Metadata that is malformed, or changed where it may not be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oarlock.meta.errors import InvalidObject
from oarlock.meta.kinds import GroupKind
from oarlock.schema.validation.objectmeta import validate_object_meta, validate_object_meta_update


def check(metadata: dict[str, Any], **how: Any) -> list[str]:
    how = {"namespaced": True, "name_rule": "dns-subdomain", **how}
    return [error.message for error in validate_object_meta({"namespace": "default", "name": "x", **metadata}, **how)]


@pytest.mark.parametrize("number", [86, 88, 89, 130, 134])
def test_recorded_refusals(golden: Any, number: int) -> None:
    exchange = next(row for row in golden if row["id"] == number)
    metadata = json.loads(exchange["request"]["body"])["metadata"]
    metadata["namespace"] = exchange["request"]["path"].split("/")[5]
    errors = validate_object_meta(metadata, namespaced=True, name_rule="path-segment")
    status = InvalidObject(GroupKind("wardle.example.com", "Flunder"), metadata.get("name", ""), errors).status()
    assert status == json.loads(exchange["response"]["body"])


def test_a_recorded_refusal_of_an_update(golden: Any) -> None:
    exchange = next(row for row in golden if row["id"] == 367)
    new = json.loads(exchange["request"]["body"])["metadata"]
    old = {"finalizers": ["example.com/hold"], "deletionTimestamp": "2026-11-20T13:11:09Z"}
    errors = validate_object_meta_update({**old, **new}, old)
    status = InvalidObject(GroupKind("wardle.example.com", "Flunder"), "fin", errors).status()
    assert status == json.loads(exchange["response"]["body"])


def test_names() -> None:
    assert check({}) == []
    assert check({"name": "a/b"}, name_rule="path-segment") == [
        "metadata.name: Invalid value: \"a/b\": may not contain '/'"
    ]
    assert check({"name": "A_b"}, name_rule="path-segment") == []
    assert "RFC 1123 subdomain" in check({"name": "A_b"})[0]
    assert "RFC 1123 label" in check({"name": "a b"}, name_rule="dns-label")[0]
    assert "DNS-1035" in check({"name": "1a"}, name_rule="dns1035-label")[0]
    assert check({"name": "x-12345", "generateName": "x-"}) == [], "something follows the dash"
    assert len(check({"name": "x", "generateName": "XY-"})) == 1


def test_namespaces() -> None:
    assert check({"namespace": ""}) == ["metadata.namespace: Required value"]
    refused = ["metadata.namespace: Forbidden: not allowed on this type"]
    assert check({"namespace": "a"}, namespaced=False) == refused
    assert check({"namespace": ""}, namespaced=False) == []


def test_labels(shared_vectors: Any) -> None:
    groups = shared_vectors("validation_names.json")["groups"]
    for labels in groups["ValidateLabels.successCases"]:
        assert check({"labels": labels}) == []
    for case in groups["ValidateLabels.labelNameErrorCases"] + groups["ValidateLabels.labelValueErrorCases"]:
        found = check({"labels": case["labels"]})
        assert found
        assert case["expect"] in found[0]
        assert found[0].startswith("metadata.labels: Invalid value")


def test_annotations_are_large_but_not_too_large() -> None:
    assert check({"annotations": {"a": "x" * (256 * 1024 - 1)}}) == []
    too_long = ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    assert check({"annotations": {"a": "x" * (256 * 1024)}}) == too_long
    assert check({"annotations": {"a": "é" * (128 * 1024)}}) == too_long
    assert check({"annotations": {"A.example.com/Key": "1"}}) == [], "case doesn't matter"
    assert len(check({"annotations": {"bad key": "1"}})) == 1


def test_owner_references() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "cm", "uid": "u"}
    assert check({"ownerReferences": [owner]}) == []
    assert check({"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "", "uid": ""}]}) == [
        'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ]
    assert check({"ownerReferences": [{**owner, "apiVersion": ""}]}) == [
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty'
    ]
    assert "disallowed from being an owner" in check({"ownerReferences": [{**owner, "kind": "Event"}]})[0]
    two = [{**owner, "kind": "A", "name": "x", "controller": True}, {**owner, "kind": "B", "controller": True}]
    assert check({"ownerReferences": two})[0].endswith('Found "true" in references for A/x and B/cm')


def test_finalizers() -> None:
    assert check({"finalizers": ["orphan", "example.com/x"]}) == []
    both = check({"finalizers": ["orphan", "foregroundDeletion"]})
    assert both[0].endswith("finalizer orphan and foregroundDeletion cannot be both set")


def test_managed_fields(shared_vectors: Any) -> None:
    groups = shared_vectors("validation_names.json")["groups"]
    cases = groups["validation.TestValidateManagedFieldsInvalid.tests"]
    assert len(cases) == 5
    for case in cases:
        entry = {key[0].lower() + key[1:]: value for key, value in case.items()}
        assert len(check({"managedFields": [{"operation": "", **entry}]})) == 1, case
    for entry in ({"operation": "Update"}, {"operation": "Apply", "fieldsType": "FieldsV1", "manager": "🍔"}):
        assert check({"managedFields": [entry]}) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "y"),
        ("namespace", "other"),
        ("uid", "u2"),
        ("creationTimestamp", "2027-01-01T00:00:00Z"),
        ("deletionTimestamp", "2027-01-01T00:00:00Z"),
        ("deletionGracePeriodSeconds", 5),
    ],
)
def test_immutable_fields(key: str, value: Any) -> None:
    old = {"name": "x", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert validate_object_meta_update(dict(old), old) == []
    found = validate_object_meta_update({**old, key: value}, old)
    assert [error.message for error in found] == [
        f"metadata.{key}: Invalid value: {json.dumps(value)}: field is immutable"
    ]


def test_the_generation_never_goes_back() -> None:
    found = validate_object_meta_update({"generation": 1}, {"generation": 2})
    assert [error.message for error in found] == ["metadata.generation: Invalid value: 1: must not be decremented"]


def test_finalizers_may_go_while_the_object_goes() -> None:
    old = {"finalizers": ["a/a", "b/b"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert validate_object_meta_update({**old, "finalizers": ["b/b"]}, old) == []
    assert validate_object_meta_update({"finalizers": ["c/c"]}, {"finalizers": []}) == []
