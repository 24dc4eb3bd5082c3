"""Exchanges recorded with kube-apiserver and its controllers, sent to ``oarlock up``, are answered as recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from recorded_plane import RecordedPlane, replay
from server_process import ServerProcess

TOPICS = (
    *("anon-", "cred-", "self-", "tr-", "imp-", "sa-", "rbac-", "boot-", "esc-", "dec-", "aggr-", "sar-", "ns-"),
    *("cm-", "sec-", "ev-", "lease-", "limit-", "flow-"),
)
ELSEWHERE = {"boot-20", "cm-45", "ns-63"}
"""Those that docs/differences.md lists."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with RecordedPlane(tmp_path_factory.mktemp("plane")) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_answered_as_recorded(plane: ServerProcess, topic: str) -> None:
    otherwise = replay(plane, "plane", topic, elsewhere=ELSEWHERE)
    assert not {one: differences for one, differences in otherwise.items() if one not in ELSEWHERE}
