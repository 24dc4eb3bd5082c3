"""What a server calls: ownership after creates, updates and applies of whole trees."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from oarlock.patch.apply.fieldsets import excluding, including, make
from oarlock.patch.apply.schema import object_type
from oarlock.patch.apply.tracking import (
    ANNOTATION,
    MAX_ANNOTATIONS_BYTES,
    FieldManager,
    FieldTracker,
    after_admission,
    keep_times,
)
from oarlock.patch.errors import ApplyConflict, ManagedFieldsError, TypedError, UnknownVersion
from oarlock.schema.structural.nodes import parse

Tree = dict[str, Any]
V1 = "wardle.example.com/v1"
V2 = "wardle.example.com/v2"
STATUS_FILTERS = {"": excluding(make([("f:status",)])), "status": including(("f:status",))}
TEXT = {"type": "string"}
PORT = {
    "type": "object",
    "properties": {"name": TEXT, "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
}
SPEC: Tree = {
    "reference": TEXT,
    "replicas": {"type": "integer"},
    "flag": {"type": "boolean"},
    "zones": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "steps": {"type": "array", "items": TEXT},
    "ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": PORT,
    },
    "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
    "template": {"type": "object", "additionalProperties": TEXT},
    "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "limit": {"x-kubernetes-int-or-string": True},
}


def schema(**spec: Any) -> Tree:
    return {
        "type": "object",
        "properties": {
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        },
    }


TYPE = object_type(parse(schema(**SPEC)))
TRACKER = FieldTracker({V1: TYPE}, filters=STATUS_FILTERS)


def writer(manager: str, second: int = 0, subresource: str = "", version: str = V1) -> FieldManager:
    return FieldManager(manager, version, f"2026-01-01T00:00:{second:02}Z", subresource)


def flunder(metadata: Tree | None = None, **rest: Any) -> Tree:
    return {"apiVersion": V1, "kind": "Flunder", "metadata": {"name": "a", **(metadata or {})}, **rest}


def owners(tree: Tree) -> dict[str, Any]:
    """What each manager owns, by ``name``, ``name/status`` and with ``(apply)`` for appliers."""
    found = {}
    for entry in tree["metadata"].get("managedFields", ()):
        name = "/".join([entry["manager"], *([entry["subresource"]] if "subresource" in entry else [])])
        found[name + (" (apply)" if entry["operation"] == "Apply" else "")] = entry["fieldsV1"]
    return found


def test_who_creates_owns_all_that_somebody_may_own() -> None:
    new = flunder(
        {"labels": {"l": "1"}, "uid": "u", "finalizers": ["x/y"]}, spec={"reference": "r"}, status={"ready": 1}
    )
    before = copy.deepcopy(new)
    tracked = TRACKER.update(None, new, writer("m"))
    assert new == before
    assert tracked["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": V1,
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {
                    "f:finalizers": {".": {}, 'v:"x/y"': {}},
                    "f:labels": {".": {}, "f:l": {}},
                },
                "f:spec": {".": {}, "f:reference": {}},
            },
        }
    ]


def test_an_update_takes_what_it_changes_and_nothing_else() -> None:
    live = TRACKER.update(None, flunder(spec={"reference": "r", "replicas": 1, "zones": ["a", "b"]}), writer("one"))
    live["metadata"]["uid"] = "u"
    new = copy.deepcopy(live)
    new["spec"].update(replicas=2, zones=["b", "c"])
    tracked = TRACKER.update(live, new, writer("two", 5))
    assert owners(tracked) == {
        "one": {"f:spec": {".": {}, "f:reference": {}, "f:zones": {".": {}, 'v:"b"': {}}}},
        "two": {"f:spec": {"f:replicas": {}, "f:zones": {'v:"c"': {}}}},
    }
    assert [entry["time"][-3:-1] for entry in tracked["metadata"]["managedFields"]] == ["00", "05"]


def test_an_update_that_changes_nothing_leaves_the_entries_alone() -> None:
    live = TRACKER.update(None, flunder(spec={"reference": "r"}), writer("one"))
    for new in (copy.deepcopy(live), flunder(spec={"reference": "r"})):
        tracked = TRACKER.update(live, new, writer("two", 9))
        assert tracked == live
    status = TRACKER.update(
        live, {**live, "metadata": {**live["metadata"], "managedFields": []}}, writer("x", 0, "status")
    )
    assert status == live


def test_true_is_not_one() -> None:
    live = TRACKER.update(None, flunder(spec={"anything": {"a": True, "b": 1}}), writer("one"))
    tracked = TRACKER.update(live, flunder(spec={"anything": {"a": 1, "b": 1.0}}), writer("two"))
    assert owners(tracked)["two"] == {"f:spec": {"f:anything": {"f:a": {}}}}


def test_status_and_spec_have_owners_of_their_own() -> None:
    live = TRACKER.update(None, flunder(spec={"replicas": 1}, status={"ready": 1}), writer("m"))
    assert "f:status" not in owners(live)["m"]
    tracked = TRACKER.update(live, {**live, "status": {"ready": 2}, "spec": {"replicas": 5}}, writer("m", 1, "status"))
    assert owners(tracked)["m/status"] == {"f:status": {"f:ready": {}}}


def test_sent_entries_replace_the_live_ones_unless_they_cannot_be_read() -> None:
    live = TRACKER.update(None, flunder(spec={"reference": "r", "replicas": 1}), writer("one"))
    entry = live["metadata"]["managedFields"][0]
    renamed = {**live, "metadata": {**live["metadata"], "managedFields": [{**entry, "manager": "other"}]}}
    assert list(owners(TRACKER.update(live, renamed, writer("x")))) == ["other"]
    for broken in ([{**entry, "operation": "?"}], [{**entry, "fieldsV1": {"v:": {}}}], [{"manager": "a"}], "no", [1]):
        sent = {**live, "metadata": {**live["metadata"], "managedFields": broken}}
        assert TRACKER.update(live, sent, writer("x")) == live
    on_status = TRACKER.update(live, renamed, writer("x", 0, "status"))
    assert list(owners(on_status)) == ["one"]


@pytest.mark.parametrize("reset", [[], [{}]])
def test_a_reset_ends_tracking_until_the_next_apply(reset: list[Any]) -> None:
    live = TRACKER.update(None, flunder(spec={"reference": "r", "replicas": 1}), writer("one"))
    live = TRACKER.update(live, {**live, "metadata": {"name": "a", "managedFields": reset}}, writer("one"))
    assert "managedFields" not in live["metadata"]
    live = TRACKER.update(live, {**live, "spec": {"reference": "s", "replicas": 1}}, writer("two"))
    assert "managedFields" not in live["metadata"]
    applied = TRACKER.apply(live, flunder(spec={"reference": "s"}), writer("three", 7))
    assert owners(applied) == {
        "three (apply)": {"f:spec": {"f:reference": {}}},
        "before-first-apply": {"f:spec": {".": {}, "f:reference": {}, "f:replicas": {}}},
    }


def test_fields_that_cannot_be_tracked_stay_as_they_were() -> None:
    live = TRACKER.update(None, flunder(spec={"replicas": 1}), writer("one"))
    broken: list[Any] = [[None], [{"port": 80}, 5], [[]]]
    for ports in broken:
        tracked = TRACKER.update(live, flunder(spec={"replicas": 2, "ports": ports}), writer("two"))
        assert tracked["metadata"]["managedFields"] == live["metadata"]["managedFields"]
    assert TRACKER.update(None, flunder(spec={"ports": [None]}), writer("two")) == flunder(spec={"ports": [None]})


# Applying ----------------------------------------------------------------------------------------------------------


def test_an_apply_that_creates() -> None:
    config = flunder({"labels": {"l": "1"}}, spec={"reference": "r1"})
    before = copy.deepcopy(config)
    created = TRACKER.apply(None, config, writer("m1"))
    assert config == before
    assert {**created, "metadata": {"name": "a", "labels": {"l": "1"}}} == config
    assert owners(created) == {"m1 (apply)": {"f:metadata": {"f:labels": {"f:l": {}}}, "f:spec": {"f:reference": {}}}}


def test_applying_the_same_again_changes_nothing() -> None:
    config = flunder(spec={"reference": "r1", "ports": [{"port": 80}]})
    live = TRACKER.apply(None, config, writer("m1"))
    assert TRACKER.apply(live, config, writer("m1", 30)) == live


def test_other_values_of_the_same_fields_renew_nothing_but_the_time() -> None:
    first = TRACKER.apply(None, flunder({"labels": {"l": "1"}}, spec={"zones": ["a"]}), writer("m"))
    again = TRACKER.apply(first, flunder({"labels": {"l": "2"}}, spec={"zones": ["a"]}), writer("m", 5))
    assert again["metadata"]["labels"] == {"l": "2"}
    assert owners(again) == owners(first)
    assert [entry["time"][-3:-1] for entry in again["metadata"]["managedFields"]] == ["05"]


def test_an_applier_that_owns_nothing_has_no_entry() -> None:
    live = TRACKER.update(None, flunder(spec={"reference": "r"}), writer("one"))
    nothing = {**live["metadata"]["managedFields"][0], "manager": "two", "operation": "Apply", "fieldsV1": {}}
    live["metadata"]["managedFields"].append(nothing)
    assert list(owners(TRACKER.apply(live, flunder(), writer("two")))) == ["one"]


def test_a_value_applied_by_two_is_shared_and_the_second_gets_no_time() -> None:
    live = TRACKER.apply(None, flunder(spec={"reference": "r"}), writer("m1"))
    shared = TRACKER.apply(live, flunder(spec={"reference": "r"}), writer("m2", 5))
    assert owners(shared) == {f"m{n} (apply)": {"f:spec": {"f:reference": {}}} for n in (1, 2)}
    assert [entry.get("time") for entry in shared["metadata"]["managedFields"]] == [None, "2026-01-01T00:00:00Z"]
    less = TRACKER.apply(shared, flunder(), writer("m1", 6))
    assert less["spec"] == {"reference": "r"}
    assert list(owners(less)) == ["m2 (apply)"]
    assert not TRACKER.apply(less, flunder(), writer("m2", 7)).get("spec")


def test_what_an_applier_drops_goes_unless_somebody_else_owns_it() -> None:
    config = flunder(
        {"labels": {"a": "1", "b": "2"}}, spec={"zones": ["a", "b"], "ports": [{"port": 80}, {"port": 81}]}
    )
    live = TRACKER.apply(None, config, writer("m1"))
    live["spec"]["ports"][0]["name"] = "kept"
    live = TRACKER.update(live, copy.deepcopy(live), writer("x"))
    less = flunder({"labels": {"a": "1"}}, spec={"zones": ["b"], "ports": [{"port": 80}]})
    applied = TRACKER.apply(live, less, writer("m1", 1))
    assert applied["metadata"]["labels"] == {"a": "1"}
    assert applied["spec"] == {"zones": ["b"], "ports": [{"port": 80, "name": "kept"}]}


def test_a_conflict_and_force() -> None:
    live = TRACKER.apply(None, flunder(spec={"reference": "r1"}), writer("m1"))
    with pytest.raises(ApplyConflict) as refused:
        TRACKER.apply(live, flunder(spec={"reference": "r2"}), writer("m2"))
    assert [one.path for one in refused.value.conflicts] == [("f:spec", "f:reference")]
    forced = TRACKER.apply(live, flunder(spec={"reference": "r2"}), writer("m2", 3), force=True)
    assert forced["spec"] == {"reference": "r2"}
    assert owners(forced) == {"m2 (apply)": {"f:spec": {"f:reference": {}}}}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"foo": 1}, ".spec.foo: field not declared in schema"),
        ({"replicas": "3"}, ".spec.replicas: expected numeric (int or float), got string"),
        ({"replicas": True}, ".spec.replicas: expected numeric (int or float), got bool"),
        ({"replicas": [1]}, ".spec.replicas: expected numeric (int or float), got []interface {}"),
        ({"replicas": {}}, ".spec.replicas: expected numeric (int or float), got map[string]interface {}"),
        ({"flag": 1}, ".spec.flag: expected boolean, got int64"),
        ({"reference": 1}, ".spec.reference: expected string, got int64"),
        ({"limit": {}}, ".spec.limit: expected any scalar, got map[string]interface {}"),
        ({"zones": "a"}, ".spec.zones: expected list, got string"),
        ({"template": []}, ".spec.template: expected map, got []interface {}"),
        ({"zones": ["a", "a"]}, '.spec.zones: duplicate entries for key [="a"]'),
        (
            {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]},
            '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]',
        ),
        ({"ports": [None]}, ".spec.ports: element 0: associative list with keys may not have a null element"),
        ({"ports": [{"port": 80, "foo": 1}]}, '.spec.ports[port=80,protocol="TCP"].foo: field not declared in schema'),
        (
            {"zones": [None]},
            ".spec.zones: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            {"foo": 1, "bar": 2},
            "errors:\n  .spec.foo: field not declared in schema\n  .spec.bar: field not declared in schema",
        ),
    ],
)
def test_configurations_that_are_refused(spec: Tree, complaint: str) -> None:
    with pytest.raises(TypedError) as refused:
        TRACKER.apply(None, flunder(spec=spec), writer("m"))
    assert str(refused.value) == complaint


def test_entries_in_a_configuration_are_refused() -> None:
    sent: list[Any] = [[], [{}], [{"manager": "x"}]]
    for entries in sent:
        with pytest.raises(ManagedFieldsError, match=r"^metadata\.managedFields must be nil$"):
            TRACKER.apply(None, flunder({"managedFields": entries}), writer("m"))


def test_atomic_maps_and_lists_have_one_owner() -> None:
    live = TRACKER.apply(None, flunder(spec={"selector": {"a": "1"}, "steps": ["x"]}), writer("m1"))
    assert owners(live)["m1 (apply)"] == {"f:spec": {"f:selector": {}, "f:steps": {}}}
    with pytest.raises(ApplyConflict) as refused:
        TRACKER.apply(live, flunder(spec={"selector": {"b": "1"}, "steps": ["y"]}), writer("m2"))
    assert [one.path[-1] for one in refused.value.conflicts] == ["f:selector", "f:steps"]


def test_status_is_ignored_by_applies_of_the_object() -> None:
    applied = TRACKER.apply(None, flunder(spec={"replicas": 1}, status={"ready": 5}), writer("m"))
    assert owners(applied) == {"m (apply)": {"f:spec": {"f:replicas": {}}}}
    again = TRACKER.apply(applied, flunder(status={"ready": 6}), writer("m", 1, "status"))
    assert owners(again)["m/status (apply)"] == {"f:status": {"f:ready": {}}}
    assert owners(again)["m (apply)"] == {"f:spec": {"f:replicas": {}}}


def test_owner_references_are_atomic_items() -> None:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    applied = TRACKER.apply(None, flunder({"ownerReferences": [reference]}), writer("m"))
    assert owners(applied) == {"m (apply)": {"f:metadata": {"f:ownerReferences": {'k:{"uid":"u"}': {}}}}}


# Versions ----------------------------------------------------------------------------------------------------------


def convert(tree: Tree, before: str, after: str) -> Tree:
    """v2 calls the reference ``ref``; v3 is gone."""
    if after not in (V1, V2):
        raise UnknownVersion(after)
    old, new = ("reference", "ref") if before == V1 else ("ref", "reference")
    spec = {new if name == old else name: value for name, value in (tree.get("spec") or {}).items()}
    return {**tree, "apiVersion": after, "spec": spec}


def versions() -> FieldTracker:
    other = {"ref" if name == "reference" else name: node for name, node in SPEC.items()}
    return FieldTracker({V1: TYPE, V2: object_type(parse(schema(**other)))}, convert)


def test_managers_of_another_version_lose_what_changes_in_theirs() -> None:
    tracker = versions()
    live = tracker.apply(None, flunder(spec={"reference": "r", "replicas": 1}), writer("m1"))
    there = convert(live, V1, V2)
    changed = {**there, "spec": {"ref": "s", "replicas": 1}}
    tracked = tracker.update(there, changed, writer("two", 1, version=V2))
    assert owners(tracked) == {"m1 (apply)": {"f:spec": {"f:replicas": {}}}, "two": {"f:spec": {"f:ref": {}}}}
    with pytest.raises(ApplyConflict) as refused:
        tracker.apply(there, {**flunder(spec={"ref": "t"}), "apiVersion": V2}, writer("m2", version=V2))
    assert [one.path for one in refused.value.conflicts] == [("f:spec", "f:reference")]


def test_an_applier_may_change_its_version() -> None:
    tracker = versions()
    live = tracker.apply(None, flunder(spec={"reference": "r", "replicas": 1}), writer("m1"))
    there = convert(live, V1, V2)
    config = {**flunder(spec={"ref": "r"}), "apiVersion": V2}
    applied = tracker.apply(there, config, writer("m1", 1, version=V2))
    assert applied["spec"] == {"ref": "r"}
    assert owners(applied) == {"m1 (apply)": {"f:spec": {"f:ref": {}}}}
    assert applied["metadata"]["managedFields"][0]["apiVersion"] == V2


def test_managers_of_versions_that_are_gone_are_dropped() -> None:
    tracker = versions()
    live = tracker.update(None, flunder(spec={"replicas": 1, "reference": "r"}), writer("one"))
    entry = live["metadata"]["managedFields"][0]
    live["metadata"]["managedFields"] = [{**entry, "manager": "old", "apiVersion": "wardle.example.com/v0"}, entry]
    tracked = tracker.update(live, {**live, "spec": {"replicas": 2, "reference": "r"}}, writer("two"))
    assert set(owners(tracked)) == {"one", "two"}


# The bridge from client-side apply, and after admission ------------------------------------------------------------


def test_an_annotation_that_would_get_too_large_is_dropped() -> None:
    live = TRACKER.update(None, flunder({"annotations": {ANNOTATION: "{}\n"}}), writer("kubectl-client-side-apply"))
    small = TRACKER.apply(live, flunder(spec={"reference": "r"}), writer("kubectl"))
    assert small["metadata"]["annotations"][ANNOTATION] == (
        '{"apiVersion":"wardle.example.com/v1","kind":"Flunder","metadata":{"name":"a"},"spec":{"reference":"r"}}\n'
    )
    other = TRACKER.apply(live, flunder(spec={"reference": "r"}), writer("somebody"))
    assert other["metadata"]["annotations"][ANNOTATION] == "{}\n"
    huge = TRACKER.apply(live, flunder(spec={"reference": "r" * MAX_ANNOTATIONS_BYTES}), writer("kubectl"))
    assert ANNOTATION not in huge["metadata"]["annotations"]


def test_admission_cannot_break_the_entries() -> None:
    before = TRACKER.update(None, flunder(spec={"reference": "r"}), writer("one"))
    broken = copy.deepcopy(before)
    broken["metadata"]["managedFields"][0]["operation"] = "?"
    repaired, warning = after_admission(before, broken)
    assert repaired == before
    assert warning is not None
    assert warning.startswith(".metadata.managedFields was in an invalid state after admission; ")
    assert after_admission(before, before) == (before, None)


def test_only_other_times_are_no_change() -> None:
    live = TRACKER.update(None, flunder(spec={"reference": "r"}), writer("one"))
    later = copy.deepcopy(live)
    later["metadata"]["managedFields"][0]["time"] = "2027-01-01T00:00:00Z"
    assert keep_times(live, later) == live
    later["spec"]["reference"] = "s"
    assert keep_times(live, later) is later
    assert keep_times(live, flunder()) == flunder()


def test_what_is_emptied_stays_where_somebody_applies_it_empty() -> None:
    port = {"port": 1, "protocol": "TCP"}
    live = TRACKER.apply(None, flunder(spec={"ports": [port]}), writer("two", 1))
    named = {**live, "spec": {"ports": [{**port, "name": "http"}]}}
    live = TRACKER.update(live, named, writer("three", 2))
    live = TRACKER.apply(live, flunder(spec={}), writer("one", 3))
    live = TRACKER.apply(live, flunder(spec={}), writer("two", 4))
    assert "spec" in live
    assert not live["spec"].get("ports")
    assert owners(live) == {name: {"f:spec": {}} for name in ("one (apply)", "two (apply)")}
    live = TRACKER.apply(live, flunder(), writer("two", 5))
    assert "spec" in live
    live = TRACKER.apply(live, flunder(), writer("one", 6))
    assert "spec" not in live
