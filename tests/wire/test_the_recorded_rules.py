"""What kube-apiserver was recorded to refuse, fill in and let change in every workload kind, asked of ``oarlock up``.

Not all of it is answered as recorded yet: for each topic so many exchanges may differ, and no more.
"""

from __future__ import annotations

import collections

import pytest
from recorded_plane import RecordedPlane, replay

DIFFERENT = {
    "addr": 5,
    "badst": 16,
    "bind": 4,
    "class": 7,
    "container": 2,
    "cron": 1,
    "deploy": 1,
    "dra": 15,
    "end": 3,
    "env": 1,
    "ephemeral": 1,
    "eps": 7,
    "ev": 5,
    "evict": 7,
    "fixed": 63,
    "hpa": 17,
    "ing": 7,
    "job": 3,
    "lim": 5,
    "node": 5,
    "pdb": 2,
    "place": 4,
    "pod": 6,
    "poddef": 1,
    "prio": 1,
    "pv": 15,
    "pvc": 13,
    "res": 6,
    "resize": 2,
    "rs": 1,
    "rt": 1,
    "scale": 4,
    "sec": 4,
    "secret": 2,
    "smp": 12,
    "status": 11,
    "sts": 5,
    "svc": 2,
    "vol": 4,
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
