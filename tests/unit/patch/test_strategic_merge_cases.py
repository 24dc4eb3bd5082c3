"""Every case of the shared table: what patches made from two and three objects lead to."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import strategic_merge_patches
import yaml
from strategic_merge_patches import UndeclaredField

from oarlock.patch import strategic_merge
from oarlock.patch.errors import PatchError

STRATEGY, KEY = "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
SIMPLE_MAP = {"type": "object", "additionalProperties": TEXT}
INTS = {"type": "array", "items": WHOLE}
LEVELS = 3
"""The type of the cases contains itself; so many levels of it are as good as all."""


def merge_item(levels: int = LEVELS) -> dict[str, Any]:
    """The type most cases are about, with a field for each strategy."""
    properties: dict[str, Any] = {"name": TEXT, "value": TEXT, "other": TEXT, "simpleMap": SIMPLE_MAP}
    properties["replacingItem"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, STRATEGY: "replace"}
    properties["mergingIntList"] = {**INTS, STRATEGY: "merge"}
    properties["nonMergingIntList"] = INTS
    if levels:
        items = {"type": "array", "items": merge_item(levels - 1)}
        by_name = {KEY: "name", STRATEGY: "merge"}
        lists = {"mergingList": {**items, **by_name}, "nonMergingList": items}
        retaining = {**items, **by_name, STRATEGY: "merge,retainKeys"}
        kept = ("name", "value", "other", "simpleMap", "mergingIntList")
        inner = {name: properties[name] for name in kept}
        properties["retainKeysMap"] = {"type": "object", STRATEGY: "retainKeys", "properties": {**inner, **lists}}
        properties |= {**lists, "mergeItemPtr": {**items, **by_name}, "retainKeysMergingList": retaining}
    return {"type": "object", "properties": properties}


PRECISION_ITEM = {
    "type": "object",
    "properties": {
        "name": TEXT,
        **dict.fromkeys(("int32", "int64"), WHOLE),
        **{name: {"type": "number"} for name in ("float32", "float64")},
    },
}

SCHEMA = strategic_merge.compile_schema(merge_item())
PRECISION = strategic_merge.compile_schema(PRECISION_ITEM)


def cases(shared_vectors: Any, group: str) -> list[dict[str, Any]]:
    found = shared_vectors("strategic_merge_patch.json")["groups"][group]
    assert found
    return [_case(case) for case in found]


def _case(case: dict[str, Any]) -> dict[str, Any]:
    """A case with lower-case names and trees."""
    flat = {key[0].lower() + key[1:]: value for key, value in case.items() if not key.startswith(("$", "Strategic"))}
    for key, value in case.get("StrategicMergePatchRawTestCaseData", {}).items():
        if key not in ("$type", "ExpectedError"):
            flat[key[0].lower() + key[1:]] = yaml.safe_load(value) or {}
        elif key == "ExpectedError":
            flat["expectedError"] = value
    return flat


def same(a: Any, b: Any) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def applied(tree: Any, patch: Any, schema: strategic_merge.MergeSchema = SCHEMA) -> Any:
    """The patched tree, after a look that nothing that was handed in has changed."""
    before = copy.deepcopy((tree, patch))
    result = strategic_merge.apply(tree, patch, schema)
    assert (tree, patch) == before
    return result


@pytest.mark.parametrize(("group", "count"), [("custom_raw", 10), ("customStrategicMergePatchTestCaseData", 18)])
def test_patches_that_people_write(shared_vectors: Any, group: str, count: int) -> None:
    found = cases(shared_vectors, group)
    assert len(found) == count
    wrong = {}
    for case in found:
        try:
            result = applied(case["original"], case["twoWay"])
        except PatchError as error:
            if "expectedError" not in case or case["expectedError"] not in str(error):
                wrong[case["description"]] = str(error)
            continue
        if "expectedError" in case or not same(result, case["modified"]):
            wrong[case["description"]] = json.dumps(result)
    assert wrong == {}


@pytest.mark.parametrize(("group", "count"), [("raw", 94), ("createStrategicMergePatchTestCaseData", 22)])
def test_patches_made_from_two_objects(shared_vectors: Any, group: str, count: int) -> None:
    found = cases(shared_vectors, group)
    assert len(found) == count
    wrong = {}
    for case in found:
        original = case.get("original") or {}
        patch = strategic_merge_patches.create(original, case["modified"], SCHEMA)
        result = applied(original, patch)
        if not same(patch, case["twoWay"]) or not same(result, case.get("twoWayResult", case["modified"])):
            wrong[case["description"]] = (json.dumps(patch), json.dumps(result))
    assert wrong == {}


@pytest.mark.parametrize(("group", "count"), [("raw", 94), ("createStrategicMergePatchTestCaseData", 22)])
def test_patches_made_from_three_objects(shared_vectors: Any, group: str, count: int) -> None:
    found = cases(shared_vectors, group)
    assert len(found) == count
    wrong = {}
    for case in found:
        result = applied(case["current"], case["threeWay"])
        if not same(result, case["result"]):
            wrong[case["description"]] = json.dumps(result)
    assert wrong == {}


def test_numbers_keep_their_precision(shared_vectors: Any) -> None:
    found = cases(shared_vectors, "number_conversion")
    assert len(found) == 7
    for case in found:
        old, new, wanted, result = (json.loads(case[key]) for key in ("old", "new", "expectedPatch", "expectedResult"))
        patch = strategic_merge_patches.create(old, new, PRECISION)
        assert same(patch, wanted), case["name"]
        assert same(applied(old, patch, PRECISION), result), case["name"]


def test_undeclared_fields(shared_vectors: Any) -> None:
    found = cases(shared_vectors, "unknown_field")
    assert len(found) == 15
    for case in found:
        original, modified, current = (json.loads(case[key]) for key in ("original", "modified", "current"))
        if "expectedTwoWayErr" in case:
            with pytest.raises(UndeclaredField, match=case["expectedTwoWayErr"]):
                strategic_merge_patches.create(original, modified, SCHEMA)
            continue
        two_way = strategic_merge_patches.create(original, modified, SCHEMA)
        for key, tree in {
            "expectedTwoWay": two_way,
            "expectedTwoWayResult": applied(original, two_way),
            "expectedThreeWayResult": applied(current, json.loads(case["expectedThreeWay"])),
        }.items():
            assert same(tree, json.loads(case[key])), (case["name"], key, tree)


def test_a_field_that_may_hold_anything_is_no_undeclared_one(shared_vectors: Any) -> None:
    declared = merge_item(1)
    declared["properties"]["jsonItem"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = strategic_merge.compile_schema(declared)
    (case,) = [case for case in cases(shared_vectors, "unknown_field") if case["name"] == "json"]
    original, modified = json.loads(case["original"]), json.loads(case["modified"])
    patch = strategic_merge_patches.create(original, modified, schema)
    assert same(patch, json.loads(case["expectedTwoWay"]))
    assert same(applied(original, patch, schema), json.loads(case["expectedTwoWayResult"]))
