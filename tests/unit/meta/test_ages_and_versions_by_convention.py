"""Ages as kubectl shows them, the order of API versions and group-versions, by cases of our own."""

from __future__ import annotations

from itertools import pairwise

import pytest

from oarlock.meta import times
from oarlock.meta.kinds import GroupVersion, version_priority

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (9 * MINUTE + 30, "9m30s"),
        (10 * MINUTE + 30, "10m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 20 * MINUTE, "3h20m"),
        (9 * HOUR + 5 * MINUTE, "9h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (400 * DAY, "400d"),
        (3 * 365 * DAY, "3y"),
        (3 * 365 * DAY + 40 * DAY, "3y40d"),
        (9 * 365 * DAY, "9y"),
    ],
)
def test_ages(seconds: float, shown: str) -> None:
    assert times.human_duration(seconds) == shown


def test_stable_versions_come_first_then_beta_then_alpha_then_the_rest() -> None:
    best_first = ["v11", "v2", "v1", "v3beta1", "v1beta2", "v1beta1", "v9alpha1", "v1alpha1", "abc", "v1x"]
    assert all(version_priority(better) < version_priority(worse) for better, worse in pairwise(best_first))


@pytest.mark.parametrize(
    ("text", "group", "version"), [("v1", "", "v1"), ("apps/v1", "apps", "v1"), ("a.b/v1", "a.b", "v1"), ("", "", "")]
)
def test_group_versions(text: str, group: str, version: str) -> None:
    assert GroupVersion.parse(text) == GroupVersion(group, version)


def test_a_group_version_has_one_slash() -> None:
    with pytest.raises(ValueError, match="unexpected GroupVersion string"):
        GroupVersion.parse("a/b/c")
