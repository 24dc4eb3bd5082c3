"""What a client is told of conflicts and mistakes is bounded, however many there are and however long their keys."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.patch.apply import elements, reconcile
from oarlock.patch.apply.schema import object_type
from oarlock.patch.apply.validate import check
from oarlock.patch.errors import OwnerConflict, TypedError
from oarlock.schema.structural import nodes as structural

KEY = "k" * 300_000


@pytest.mark.slow
def test_a_thousand_conflicts_are_named_and_the_rest_counted() -> None:
    found = [OwnerConflict("them", ("f:spec", f"f:{KEY}", f"f:a{i}")) for i in range(5000)]
    text, causes = reconcile.conflict_message(found), reconcile.conflict_causes(found)
    assert text.startswith("Apply failed with 5000 conflicts: conflicts with them:\n- .spec.kkk")
    assert text.endswith("\nand 4000 more")
    assert len(causes) == 1000
    assert len(text) + sum(len(cause["field"]) for cause in causes) < 3_000_000


def test_up_to_a_thousand_are_all_named() -> None:
    found = [OwnerConflict("them", ("f:spec", f"f:a{i}")) for i in range(1000)]
    assert "more" not in reconcile.conflict_message(found)
    assert reconcile.conflict_causes(found)[-1]["field"] == ".spec.a999"


def test_a_path_is_cut() -> None:
    assert elements.path_text(["f:spec", f"f:{KEY}", "f:a"]) == ".spec." + "k" * 1018 + "..."
    assert elements.path_text(["f:spec", 'k:{"a":"b"}', "i:3"]) == '.spec[a="b"][3]'


@pytest.mark.parametrize(
    ("items", "paths"),
    [
        ([{"odd": 1}] * 5000, 100),
        ([{"name": 3}] * 5000, 100),
        ([1] * 5000, 100),
    ],
)
def test_problems_below_a_long_key_are_a_hundred_short_texts(items: list[Any], paths: int) -> None:
    item = {"type": "object", "properties": {"name": {"type": "string"}}}
    schema = {"type": "object", "additionalProperties": {"type": "array", "items": item}}
    with pytest.raises(TypedError) as caught:
        check(object_type(structural.parse(schema)), {KEY: items})
    assert len(caught.value.problems) == paths
    assert len(str(caught.value)) < 200_000
