"""Objects carry along what their version can't represent, where nothing but conversions is known of other versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from webhook_home import GROUP, harbour

from oarlock.registry.conversions import Converter
from oarlock.registry.kept_fields import ANNOTATION, MOST_BYTES, keeping_fields

BERTHS, WRECKS = harbour().catalog.resources


@pytest.fixture
def keeper() -> Converter:
    return keeping_fields(BERTHS.definition, BERTHS.converter)


def berth(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "a", "annotations": {"mine": "x"}}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Berth", "metadata": metadata, "spec": {"ship": "argo", **spec}}


def converted(keeper: Converter, tree: dict[str, Any], before: str, after: str) -> dict[str, Any]:
    made = keeper.convert_now([tree], before, after)
    assert made is not None
    return made[0]


def test_a_round_trip_loses_nothing(keeper: Converter) -> None:
    shown = converted(keeper, berth(ropes=[{"length": 7, "knot": "bend"}]), "v1", "v1alpha1")
    assert ANNOTATION in shown["metadata"]["annotations"]
    assert "ropes" not in shown["spec"]
    back = converted(keeper, shown, "v1alpha1", "v1")
    assert back["spec"]["ropes"] == [{"length": 7, "knot": "bend"}]
    assert back["metadata"]["annotations"] == {"mine": "x"}


def test_what_a_client_changes_in_its_version_counts(keeper: Converter) -> None:
    shown = converted(keeper, berth(ropes=[{"length": 7}]), "v1", "v1alpha1")
    shown["spec"]["vessel"] = "nautilus"
    back = converted(keeper, shown, "v1alpha1", "v1")
    assert (back["spec"]["ship"], len(back["spec"]["ropes"])) == ("nautilus", 1)


def test_nothing_is_carried_along_where_nothing_would_be_lost(keeper: Converter) -> None:
    whole = berth(depth=3, pilot="", checked="")
    assert converted(keeper, whole, "v1", "v1alpha1")["metadata"]["annotations"] == {"mine": "x"}


@pytest.mark.parametrize("text", ["", "no json", "[]", json.dumps({"spec": 3})])
def test_an_annotation_that_says_nothing_is_dropped(keeper: Converter, text: str) -> None:
    tree = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "Berth",
        "metadata": {"name": "a", "annotations": {ANNOTATION: text}},
        "spec": {"vessel": "argo", "depth": 3},
    }
    back = converted(keeper, tree, "v1alpha1", "v1")
    assert back["metadata"] == {"name": "a"}
    assert back["spec"]["ship"] == "argo"


def test_what_is_too_large_for_an_annotation_is_not_carried_along(keeper: Converter) -> None:
    shown = converted(keeper, berth(ropes=[{"knot": "x" * MOST_BYTES}]), "v1", "v1alpha1")
    assert shown["metadata"]["annotations"] == {"mine": "x"}


def test_versions_that_are_alike_and_a_single_one_need_nothing() -> None:
    assert keeping_fields(WRECKS.definition, WRECKS.converter) is WRECKS.converter
