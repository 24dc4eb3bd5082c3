"""Group-versions as text, the order of versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oarlock.meta.kinds import GroupVersion, version_priority

Vectors = Callable[[str], Any]

# Of the shared table `kind_to_resource`, `resource_arg` and `kind_arg` are left out: they are guesses and arguments
# of command lines, which a server never makes or reads. So are `int_or_string` and `int_or_percent`: no kind that is
# served here has a field that is a number or a percentage.


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
