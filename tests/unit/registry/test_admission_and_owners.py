"""Mutating admission may change who owns what, but not break it."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.meta.context import Context, Target, User
from oarlock.registry.write.metadata import with_valid_owners
from oarlock.testing.clock import VirtualClock

ENTRY = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "a.example.com/v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {}},
}
TARGET = Target("update", "a.example.com", "v1", "things", "", "default", "a", "Thing")


def thing(entries: Any, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "a"} if entries is None else {"name": "a", "managedFields": entries}
    return {"metadata": metadata, "spec": spec}


def after_admission(before: dict[str, Any], after: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    ctx = Context(User("u"), TARGET, VirtualClock())
    return with_valid_owners(before, after, ctx), list(ctx.notes.warnings)


@pytest.mark.parametrize("entries", [[ENTRY], [{**ENTRY, "manager": "other"}], None])
def test_what_can_be_read_is_kept(entries: Any) -> None:
    before, after = thing([ENTRY], size=1), thing(entries, size=2)
    assert after_admission(before, after) == (after, [])
    assert after_admission(before, before) == (before, [])


@pytest.mark.parametrize(
    "broken",
    [
        [{}],
        [{**ENTRY, "operation": "Paint"}],
        [{**ENTRY, "apiVersion": ""}],
        [{**ENTRY, "fieldsV1": {"nonsense": {}}}],
        [{**ENTRY, "time": "noon"}],
        ["text"],
    ],
)
def test_what_cannot_is_put_back_with_a_warning_and_the_rest_stays(broken: Any) -> None:
    tree, warnings = after_admission(thing([ENTRY], size=1), thing(broken, size=2))
    assert tree == thing([ENTRY], size=2)
    (warning,) = warnings
    assert warning.startswith(".metadata.managedFields was in an invalid state after admission; ")
    assert after_admission(thing(None), thing(broken, size=2))[0] == thing(None, size=2)
