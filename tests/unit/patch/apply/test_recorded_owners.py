"""Recorded answers of the Go sample server: the same writes give the same managedFields."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from oarlock.codec import json
from oarlock.patch.apply.reconcile import conflict_causes, conflict_message
from oarlock.patch.apply.schema import object_type
from oarlock.patch.apply.tracking import FieldManager, FieldTracker
from oarlock.patch.errors import ApplyConflict
from oarlock.schema.structural.nodes import parse

TEXT = {"type": "string"}
V1ALPHA1, V1BETA1 = "wardle.example.com/v1alpha1", "wardle.example.com/v1beta1"


def flunders(*names: str) -> Any:
    properties = {"spec": {"type": "object", "properties": dict.fromkeys(names, TEXT)}, "status": {"type": "object"}}
    return object_type(parse({"type": "object", "properties": properties}))


FLUNDERS = FieldTracker(
    {
        V1ALPHA1: flunders("reference", "referenceType"),
        V1BETA1: flunders("flunderReference", "fischerReference", "referenceType"),
    },
    blanks={version: {"spec": {}, "status": {}} for version in (V1ALPHA1, V1BETA1)},
)
FISCHERS = FieldTracker(
    {
        V1ALPHA1: object_type(
            parse({"type": "object", "properties": {"disallowedFlunders": {"type": "array", "items": TEXT}}})
        )
    }
)
TRACKERS = {"flunders": FLUNDERS, "fischers": FISCHERS}


@pytest.fixture(scope="module")
def recorded(golden: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Requests and the JSON objects they were answered with."""
    found = []
    for exchange in golden:
        body = exchange.get("response", {}).get("body", "")
        if body.startswith('{"kind"'):
            found.append((exchange["request"], json.decode(body.encode())))
    return found


def without_entries(tree: dict[str, Any]) -> dict[str, Any]:
    return {**tree, "metadata": {k: v for k, v in tree["metadata"].items() if k != "managedFields"}}


def test_creates(recorded: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    compared = 0
    for request, answer in recorded:
        entries = answer.get("metadata", {}).get("managedFields") or []
        resource = urlsplit(request["path"]).path.rsplit("/", 1)[-1]
        if request["method"] != "POST" or resource not in TRACKERS or len(entries) != 1:
            continue
        writer = FieldManager(entries[0]["manager"], answer["apiVersion"], entries[0]["time"])
        tracked = TRACKERS[resource].update(None, without_entries(answer), writer)
        assert tracked["metadata"].get("managedFields") == entries, request
        compared += 1
    assert compared > 5


def test_applies(recorded: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    live: Any = None
    compared = 0
    for request, answer in recorded:
        url = urlsplit(request["path"])
        if "apply-patch+yaml" not in str(request["headers"]) or not url.path.endswith("/flunders/ap"):
            continue
        said = parse_qs(url.query)
        if answer["kind"] == "Status" and answer["reason"] != "Conflict":
            continue
        config = json.decode(request["body"].encode())
        now = answer["metadata"].get("managedFields", [{}])[-1].get("time", "")
        writer = FieldManager(said["fieldManager"][0], V1ALPHA1, now)
        compared += 1
        if answer["kind"] == "Status":
            with pytest.raises(ApplyConflict) as refused:
                FLUNDERS.apply(live, config, writer)
            assert conflict_message(refused.value.conflicts) == answer["message"]
            assert conflict_causes(refused.value.conflicts) == answer["details"]["causes"]
            continue
        applied = FLUNDERS.apply(live, config, writer, force="force" in said)
        assert applied["metadata"]["managedFields"] == answer["metadata"]["managedFields"], request
        live = answer
        if compared == 4:  # what follows builds on answers that weren't recorded
            break
    assert compared == 4
