"""A cluster that clients reach over a real port, one for all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oarlock import ControlPlane
from oarlock.testing.thread import ServerThread
from oarlock_cluster.nodes.kubelets import SimulatedNodes
from oarlock_cluster.nodes.shapes import new_nodes
from oarlock_cluster.simulation import simulated_cluster
from oarlock_cluster.workloads import workloads_part


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    nodes = SimulatedNodes(new_nodes(3))
    plane = ControlPlane(parts=[workloads_part, *simulated_cluster(nodes)])
    with ServerThread(plane, folder=tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def deployment() -> Callable[[str], dict[str, Any]]:
    """A Deployment with three replicas, whose pods log a line."""

    def make(name: str) -> dict[str, Any]:
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels, "annotations": {"sim/log": "ready to lift"}},
            "spec": {"containers": [{"name": "crane", "image": "crane:1"}]},
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
        }

    return make
