"""What kube-apiserver was recorded to refuse, fill in and let change in every workload kind, asked of ``oarlock up``.

Not all of it is answered as recorded yet: for each topic so many exchanges may differ, and no more.
"""

from __future__ import annotations

import collections

import pytest
from recorded_plane import RecordedPlane, replay

DIFFERENT = {
    "badst": 1,
    "dra": 1,
    "fixed": 2,
    "ing": 1,
    "pv": 1,
    "sec": 1,
    "secret": 1,
    "smp": 1,
    "status": 3,
}
"""By topic: how many exchanges are answered otherwise. docs/workload-kinds.md says which rules lack."""

OPTIONS = ("--service-cluster-ip-range", "10.0.0.0/24", "--controllers", "*,-garbage-collector-controller")
"""As the recorded server was started: what collects garbage is another program there."""


@pytest.mark.slow
def test_workload_kinds_are_ruled_as_recorded(tmp_path_factory: pytest.TempPathFactory) -> None:
    with RecordedPlane(tmp_path_factory.mktemp("rules"), OPTIONS) as server:
        otherwise = replay(server, "rules")
    counted = collections.Counter(exchange.partition("-")[0] for exchange in otherwise)
    worse = {topic: number for topic, number in counted.items() if number > DIFFERENT.get(topic, 0)}
    found = {exchange: told for exchange, told in otherwise.items() if exchange.partition("-")[0] in worse}
    assert not worse, found
