"""Group-versions as text, the order of versions, numbers or percentages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oarlock.meta import int_or_percent
from oarlock.meta.kinds import GroupVersion, version_priority

Vectors = Callable[[str], Any]

# Of the shared table `kind_to_resource`, `resource_arg` and `kind_arg` are left out: they are guesses and arguments
# of command lines, which a server never makes or reads.


def test_group_versions(shared_vectors: Vectors) -> None:
    for case in shared_vectors("misc.json")["groups"]["gv_parse"]:
        if "err" in case:
            with pytest.raises(ValueError, match="unexpected GroupVersion string"):
                GroupVersion.parse(case["input"])
        else:
            out = case["out"]
            assert GroupVersion.parse(case["input"]) == GroupVersion(out.get("Group", ""), out.get("Version", ""))


def test_the_order_of_versions(shared_vectors: Vectors) -> None:
    for case in shared_vectors("misc.json")["groups"]["kube_version_order"]:
        first = version_priority(case["v1"]) < version_priority(case["v2"])
        assert first is case["expectedGreater"], case


def _value(tree: dict[str, Any]) -> int | str:
    found: int | str = tree["args"][0]
    return found


def test_numbers_or_percentages(shared_vectors: Vectors) -> None:
    groups = shared_vectors("misc.json")["groups"]
    for case in groups["int_or_string"]:
        if case["expectErr"]:
            with pytest.raises(int_or_percent.IntOrPercentError):
                int_or_percent.parse(_value(case["input"]))
        else:
            assert int_or_percent.parse(_value(case["input"])) == (case["expectVal"], case["expectPerc"])
    for case in groups["int_or_percent"]:
        total, round_up = case.get("total", 0), case.get("roundUp", False)
        if case["expectErr"]:
            with pytest.raises(int_or_percent.IntOrPercentError):
                int_or_percent.of_total(_value(case["input"]), total, round_up=round_up)
        else:
            found = int_or_percent.of_total(_value(case["input"]), total, round_up=round_up)
            assert found == case["expectVal"]
