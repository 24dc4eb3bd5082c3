"""Validation of custom resources against the recorded cases: every error, word for word."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from oarlock.schema.passes.pruning import prune
from oarlock.schema.structural.merge_keys import OBJECT_META
from oarlock.schema.structural.nodes import SchemaError, parse
from oarlock.schema.structural.patterns import structural_errors
from oarlock.schema.validation.findings import ValidationFindings
from oarlock.schema.validation.objectmeta import compile_embedded
from oarlock.schema.validation.ratcheting import compile_lists
from oarlock.schema.validation.values import compile_check


@pytest.fixture(scope="module")
def groups(shared_vectors: Any) -> Any:
    return shared_vectors("crd_validation.json")["groups"]


def check(schema: Any, tree: Any) -> list[str]:
    found = ValidationFindings()
    run = compile_check(parse(schema))
    if run is not None:
        run(tree, None, found)
    return [error.message for error in found.errors]


def test_custom_resources(groups: Any, go_schema: Any) -> None:
    ran = 0
    for case in groups["validation:validation.TestValidateCustomResource.tests"]:
        if "XValidations" in json.dumps(case["schema"]):
            continue  # CEL rules are not evaluated here: 3 cases
        ran += 1
        schema = go_schema(case["schema"])
        for tree in case.get("objects", []):
            assert check(schema, _numbers(tree)) == [], (case["name"], tree)
        for failing in case.get("failingObjects", []):
            found = check(schema, _numbers(failing["object"]))
            assert sorted(found) == sorted(failing["expectErrs"]), case["name"]
    assert ran == 17


def _numbers(tree: Any) -> Any:
    """``{"$int": "…"}`` is an integer too large for the table's own numbers."""
    if isinstance(tree, dict):
        return int(tree["$int"]) if "$int" in tree else {key: _numbers(item) for key, item in tree.items()}
    return tree


def test_lists_that_are_sets_or_maps(groups: Any, go_schema: Any) -> None:
    cases = groups["listtype:listtype.TestValidateListSetsAndMaps.tests"]
    assert len(cases) == 17
    for case in cases:
        schema = go_schema(case.get("schema")) or {}
        found = ValidationFindings()
        run = compile_lists(parse(schema))
        if run is not None and "obj" in case:
            run(case["obj"], (None, "root"), found)
        expected = {(e["errorType"], _path(e["path"])) for e in case.get("errors", [])}
        assert {(e.reason, e.path) for e in found.errors} == expected, case["name"]
        assert len(found.errors) == len(expected), case["name"]


def _path(path: Any) -> str:
    return f"{_path(path['parent'])}.{path['name']}" if "parent" in path else path["name"]


EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


def errors_of_embedded(schema: Any, tree: Any) -> list[tuple[str, str]]:
    found = ValidationFindings()
    embedded = compile_embedded(parse(schema))
    if embedded is not None:
        embedded.validate(tree, found)
    return [(error.reason, error.path) for error in found.errors]


def test_embedded_objects(groups: Any) -> None:
    cases = groups["objectmeta:objectmeta.TestValidateEmbeddedResource.tests"]
    assert len(cases) == 6
    for case in cases:
        found = errors_of_embedded({"type": "object", "properties": {"e": EMBEDDED}}, {"e": case["object"]})
        expected = [(e["errorType"], "e." + _path(e["path"])) for e in case.get("errors", [])]
        assert sorted(found) == sorted(expected), case["name"]


def test_embedded_objects_everywhere(groups: Any) -> None:
    nested = {**EMBEDDED, "properties": {"embedded": EMBEDDED}}
    schema = {
        "type": "object",
        "properties": {
            "embedded": EMBEDDED,
            "nested": nested,
            "items": {"type": "array", "items": EMBEDDED},
            "additionalProperties": {"type": "object", "additionalProperties": EMBEDDED},
        },
    }
    ran = 0
    for case in groups["objectmeta:objectmeta.TestValidate.tests"]:
        if case.get("includeRoot"):
            continue  # the object itself is checked by its own rules, not as an embedded one: 1 case
        ran += 1
        expected = [(e["errorType"], _path(e["path"])) for e in case["errors"]]
        assert sorted(errors_of_embedded(schema, json.loads(case["object"]))) == sorted(expected), case["name"]
    assert ran == 5


def test_metadata_of_embedded_objects_is_coerced(groups: Any, go_schema: Any) -> None:
    ran = 0
    for case in groups["objectmeta_coerce"]:
        if case.get("dropInvalidFields"):
            continue  # decoding what is already stored is lenient in Go; here a stored object is never rewritten: 2
        ran += 1
        schema = go_schema(case["schema"])
        tree = json.loads(case["json"])
        found: list[str] = []
        if case.get("includeRoot"):
            found = [f"metadata.{name}" for name in prune(tree["metadata"], OBJECT_META)]
        embedded = compile_embedded(parse(schema or {}))
        if embedded is not None:
            assert list(embedded.wrong_types(tree)) == []
            found += embedded.prune(tree)
        assert tree == json.loads(case["expected"]), case["name"]
        assert sorted(found) == case.get("expectedUnknownFields", []), case["name"]
    assert ran == 6


def test_what_is_not_structural(groups: Any) -> None:
    cases = groups["nonstructural_v1"]
    assert len(cases) == 16
    for case in cases:
        schema = yaml.safe_load(case["globalSchema"])
        path = "spec.validation.openAPIV3Schema"
        try:
            found = [error.message for error in structural_errors(parse(schema, path), path)]
        except SchemaError as error:
            found = [f"{error.path}: Forbidden: {error.why}"]
        for expected in case.get("expectedCreateErrors", []):
            assert expected in found, case["desc"]
        if "expectedCreateErrors" not in case:
            assert found == [], case["desc"]
        for unexpected in case.get("unexpectedCreateErrors", []):
            assert not any(unexpected in text for text in found), case["desc"]


def test_fields_in_branches_are_specified_outside_of_them(groups: Any) -> None:
    ran = 0
    for case in groups["structural_completeness"]:
        options = case.get("options", {})
        if options.get("AllowValidationPropertiesWithAdditionalProperties"):
            continue  # an option for Go's own types, which no definition can choose: 1 case
        ran += 1
        # The cases give no type to the root, which only this rule doesn't mind.
        errors = structural_errors(parse(case["schema_openapi"]))
        found = [error.message for error in errors if "because it is defined in" in error.message]
        expected = [case["error"]] if "error" in case else []
        assert found == expected, case["name"]
    assert ran == 6
