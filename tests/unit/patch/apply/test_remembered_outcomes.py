"""A tracker that has seen much says what a new one says."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.patch.apply.fieldsets import excluding, including, make
from oarlock.patch.apply.schema import object_type
from oarlock.patch.apply.tracking import FieldManager, FieldTracker
from oarlock.schema.structural.nodes import parse

pytestmark = pytest.mark.slow

STATUS_FILTERS = {"": excluding(make([("f:status",)])), "status": including(("f:status",))}
TEXT = {"type": "string"}
PART = {"type": "object", "properties": {"name": TEXT, "size": {"type": "integer"}}}
TYPE = object_type(
    parse(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "text": TEXT,
                        "inner": {"type": "object", "properties": {"text": TEXT}},
                        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
                        "zones": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
                        "parts": {
                            "type": "array",
                            "items": PART,
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name"],
                        },
                        "free": {"x-kubernetes-preserve-unknown-fields": True},
                    },
                },
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
                "status": {"type": "object", "properties": {"text": TEXT}},
            },
        }
    )
)
BLANK: dict[str, Any] = {"spec": {"inner": {}, "whole": {}}, "whole": {}, "status": {}}
TEXTS = st.sampled_from(["", "a", "b"])
MAPS = st.dictionaries(st.sampled_from(["text", "a"]), TEXTS, max_size=2)
PARTS = st.lists(
    st.fixed_dictionaries({"name": TEXTS}, optional={"size": st.sampled_from([0, 1, True])}),
    max_size=2,
    unique_by=lambda part: part["name"],
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXTS | st.none(),
        "inner": MAPS | st.none(),
        "whole": MAPS | st.none(),
        "zones": st.lists(TEXTS, max_size=2, unique=True),
        "parts": PARTS,
        "free": MAPS | TEXTS | st.lists(TEXTS, max_size=2) | st.none(),
    },
)
ANY = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.just("a")}, optional={"labels": MAPS})},
    optional={"spec": SPECS | st.none(), "whole": MAPS, "status": MAPS},
)
# few shapes, so that different objects of one shape meet
FEW = st.sampled_from([{}, {"a": "a"}, {"a": "b"}, None])
ALIKE = st.fixed_dictionaries(
    {"metadata": st.just({"name": "a"}), "spec": st.fixed_dictionaries({"inner": FEW, "whole": FEW}), "whole": FEW}
)
OBJECTS = ANY | ALIKE
WRITES = st.lists(
    st.tuples(OBJECTS, st.sampled_from(["a", "b"]), st.sampled_from(["", "status"]), st.booleans()),
    min_size=1,
    max_size=6,
)


def tracker() -> FieldTracker:
    return FieldTracker({"v1": TYPE}, filters=STATUS_FILTERS, blanks={"v1": BLANK})


EXPERIENCED = tracker()


def test_an_object_owned_as_a_whole_is_owned_once_something_is_in_it() -> None:
    tracks, writer = tracker(), FieldManager("a", "v1", "2026-01-01T00:00:00Z")
    spec: dict[str, Any] = {"inner": {}, "whole": {}}
    owned = [
        tracks.update(None, {"metadata": {"name": "a"}, "spec": spec, "whole": whole, "status": {}}, writer)["metadata"]
        for whole in ({}, {"a": "b"}, {})
    ]
    assert ["managedFields" in metadata for metadata in owned] == [False, True, False]


@examples(300)
@given(WRITES)
def test_what_is_remembered_changes_no_outcome(writes: list[tuple[dict[str, Any], str, str, bool]]) -> None:
    live: dict[str, Any] | None = None
    for second, (new, manager, subresource, created) in enumerate(writes):
        new = {"apiVersion": "v1", "kind": "Thing", **copy.deepcopy(new)}
        writer = FieldManager(manager, "v1", f"2026-01-01T00:00:{second:02}Z", subresource)
        before = None if created else live
        live = tracker().update(copy.deepcopy(before), copy.deepcopy(new), writer)
        assert EXPERIENCED.update(copy.deepcopy(before), copy.deepcopy(new), writer) == live
