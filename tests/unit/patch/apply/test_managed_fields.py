"""managedFields read and written, sorted, capped; the bridge from client-side apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from oarlock.codec import json
from oarlock.patch.apply import elements, fieldsets, managers
from oarlock.patch.apply.reconcile import conflict_causes, conflict_message
from oarlock.patch.apply.schema import DEDUCED, OBJECT_META, ListType, MapType, ValueType
from oarlock.patch.apply.tracking import ANNOTATION, FieldManager, FieldTracker
from oarlock.patch.errors import ApplyConflict, FieldsError, ManagedFieldsError

Groups = dict[str, list[Any]]


@pytest.fixture(scope="module")
def groups(shared_vectors: Callable[[str], Any]) -> Groups:
    found: Groups = shared_vectors("managed_fields.json")["groups"]
    assert sum(map(len, found.values())) == 71
    return found


def test_path_elements(groups: Groups) -> None:
    for text in groups["path_element_round_trip"]:
        assert elements.canonical(text) == text
    for text in groups["path_element_errors"]:
        with pytest.raises(FieldsError):
            elements.canonical(text)


def test_what_was_read_is_written_again(groups: Groups) -> None:
    for text in groups["managed_fields_round_trip"] + groups["internal.TestRoundTripManagedFields.tests"]:
        entries = yaml.safe_load(text)
        written = managers.encode(managers.decode(entries))
        assert written == (entries or [])
        fresh = managers.decode(entries)
        fresh.read.clear()
        assert json.encode_canonical(managers.encode(fresh)) == json.encode_canonical(entries or [])


def entry(said: dict[str, Any]) -> dict[str, Any]:
    """An entry of the table, with a version and an empty set where it has none."""
    made = {"manager": said["Manager"], "operation": said["Operation"], "apiVersion": said.get("APIVersion", "v1")}
    made.update({"time": said["Time"]} if "Time" in said else {})
    made.update({"subresource": said["Subresource"]} if "Subresource" in said else {})
    return made


def test_sorting(groups: Groups) -> None:
    for case in groups["internal.TestSortEncodedManagedFields.tests"]:
        given, expected = ([entry(one) for one in case.get(name) or ()] for name in ("managedFields", "expected"))
        # What the table sorts may name the same manager twice, which can't be read; versions tell them apart.
        for number, one in enumerate(given):
            one.update(apiVersion=f"v{number}", fieldsType="FieldsV1", fieldsV1={"f:a": {}})
            if one["operation"] == "Apply" and sum(e["manager"] == one["manager"] for e in given) > 1:
                one["subresource"] = one.get("subresource", "") or ("x" if "time" in one else "")
        written = managers.encode(managers.decode(given))
        names = [(e["manager"], e["operation"], e.get("time")) for e in written]
        assert names == [(e["manager"], e["operation"], e.get("time")) for e in expected], case["name"]


# From client-side apply ------------------------------------------------------------------------------------------


def deployment() -> FieldTracker:
    """As much of a Deployment as the table has."""
    text = ValueType("string")
    container = ValueType(map=MapType({"name": text, "image": text}))
    labels = ValueType(map=MapType(element=text))
    selector = ValueType(map=MapType({"matchLabels": labels}, atomic=True))
    containers = ValueType(list=ListType(container, atomic=False, keys=("name",)))
    template = ValueType(
        map=MapType({"metadata": OBJECT_META, "spec": ValueType(map=MapType({"containers": containers}))})
    )
    spec = ValueType(map=MapType({"replicas": ValueType("numeric"), "selector": selector, "template": template}))
    return FieldTracker(
        {"apps/v1": ValueType(map=MapType({"apiVersion": text, "kind": text, "metadata": OBJECT_META, "spec": spec}))}
    )


def path_of(said: dict[str, Any]) -> elements.Path:
    return tuple(
        elements.field(one) if isinstance(one, str) else elements.key(dict([one["args"]])) for one in said["args"]
    )


def test_kubectl_takes_what_it_applied_last(groups: Groups) -> None:
    for number, case in enumerate(groups["last_applied_annotation"]):
        tracker, original, applied = deployment(), yaml.safe_load(case["original"]), yaml.safe_load(case["applied"])
        last = case.get("lastApplied", case["original"])
        last = original if last == case["original"] else yaml.safe_load(last) if last else {}
        if number == 9:  # the text can't be encoded as an object by the reference either
            last = {}
        annotations = {ANNOTATION: json.encode_canonical(last).decode() + "\n"}
        original["metadata"]["annotations"] = annotations
        live = tracker.update(None, original, FieldManager("test_client_side_apply", "apps/v1", "2026-01-01T00:00:00Z"))
        writer = FieldManager(case["fieldManager"], "apps/v1", "2026-01-02T00:00:00Z")
        expected = fieldsets.make(path_of(one) for one in (case.get("expectConflictSet") or {"args": []})["args"])
        conflicts: tuple[Any, ...] = ()
        try:
            result = tracker.apply(live, applied, writer)
        except ApplyConflict as refused:
            conflicts = refused.conflicts
            result = tracker.apply(live, applied, writer, force=True)
        assert [one.path for one in conflicts] == list(fieldsets.iterate(expected)), number
        assert {str(one.manager) for one in conflicts} <= {'"test_client_side_apply" using apps/v1'}
        assert result["spec"]["replicas"] == applied["spec"]["replicas"]
        if case["fieldManager"] == "kubectl":
            assert json.decode(result["metadata"]["annotations"][ANNOTATION].encode()) == applied


# Entries -----------------------------------------------------------------------------------------------------------

GOOD = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "Patch"},
        {"operation": None},
        {"apiVersion": ""},
        {"apiVersion": 1},
        {"fieldsType": ""},
        {"fieldsType": "FieldsV2"},
        {"fieldsV1": []},
        {"fieldsV1": {"f:a": 1}},
        {"fieldsV1": {"k:[": {}}},
        {"time": "yesterday"},
        {"time": 5},
        {"manager": []},
        {"subresource": {}},
    ],
)
def test_entries_that_cannot_be_read(change: dict[str, Any]) -> None:
    with pytest.raises((ManagedFieldsError, FieldsError)):
        managers.decode([{**GOOD, **change}])
    with pytest.raises(ManagedFieldsError):
        managers.decode(["text"])


def test_times_are_written_in_utc_and_whole_seconds() -> None:
    written = managers.encode(managers.decode([{**GOOD, "time": "2026-01-01T02:00:00.5+02:00"}]))
    assert written[0]["time"] == "2026-01-01T00:00:00Z"


def test_the_oldest_updaters_are_merged_version_by_version() -> None:
    entries = [
        {**GOOD, "manager": f"m{n:02}", "time": f"2026-01-01T00:00:{n:02}Z", "fieldsV1": {f"f:{n}": {}}}
        for n in range(13)
    ]
    entries[1] = {**entries[1], "apiVersion": "v2"}
    applied = {**GOOD, "operation": "Apply"}
    managed = managers.decode([*entries, applied])
    managers.cap(managed)
    written = managers.encode(managed)
    assert written[0] == applied
    updates = written[1:]
    assert len(updates) == 10
    ancient = next(one for one in updates if one["manager"] == "ancient-changes")
    assert ancient["apiVersion"] == "v1"
    assert ancient["fieldsV1"] == {"f:0": {}, "f:2": {}, "f:3": {}, "f:4": {}}
    assert ancient["time"] == "2026-01-01T00:00:04Z"
    assert updates[0]["manager"] == "m01"


def test_what_a_client_is_told_of_conflicts() -> None:
    tracker = FieldTracker({"v1": DEDUCED, "v2": DEDUCED})
    now = "2026-01-01T00:00:00Z"
    live = tracker.apply(
        None, {"metadata": {"name": "x"}, "a": 1, "b": {"c": 1}}, FieldManager("one", "v1", now, "status")
    )
    live = tracker.update(live, {**live, "d": 5}, FieldManager("two", "v1", now))
    one = {"manager": '"one" with subresource "status"', "fields": [".a", ".b.c"]}
    with pytest.raises(ApplyConflict) as refused:
        tracker.apply(live, {"metadata": {}, "a": 2, "b": {"c": 2}, "d": 6}, FieldManager("three", "v1", now))
    assert conflict_message(refused.value.conflicts) == (
        'Apply failed with 3 conflicts: conflicts with "one" with subresource "status":\n- .a\n- .b.c\n'
        'conflicts with "two" using v1:\n- .d'
    )
    told = conflict_causes(refused.value.conflicts)
    assert told[0] == {
        "reason": "FieldManagerConflict",
        "message": f"conflict with {one['manager']}",
        "field": ".a",
    }
    assert [cause["field"] for cause in told] == [".a", ".b.c", ".d"]
    with pytest.raises(ApplyConflict) as refused:
        tracker.apply(live, {"metadata": {}, "d": 6}, FieldManager("three", "v1", now))
    assert conflict_message(refused.value.conflicts) == 'Apply failed with 1 conflict: conflict with "two" using v1: .d'
