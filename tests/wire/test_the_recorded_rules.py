"""What kube-apiserver was recorded to refuse, fill in and let change in every workload kind, asked of ``oarlock up``.

Not all of it is answered as recorded yet: for each topic so many exchanges may differ, and no more.
"""

from __future__ import annotations

import collections

import pytest
from recorded_plane import RecordedPlane, replay

DIFFERENT = {
    "badst": 5,
    "bind": 3,
    "class": 1,
    "container": 2,
    "dra": 11,
    "end": 3,
    "ev": 5,
    "evict": 4,
    "fixed": 22,
    "ing": 1,
    "lim": 1,
    "place": 2,
    "pod": 1,
    "pv": 12,
    "pvc": 13,
    "res": 4,
    "scale": 4,
    "sec": 1,
    "secret": 2,
    "smp": 5,
    "status": 5,
    "sts": 1,
    "svc": 2,
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
