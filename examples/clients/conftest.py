"""A cluster that clients reach over a real port, one for all tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lightkube import Client, KubeConfig
from lightkube.resources.apps_v1 import Deployment

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


@pytest.fixture(scope="package")
def go_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs of go/, built; skipped where there is no Go, or its modules can't be had."""
    go, programs = shutil.which("go"), tmp_path_factory.mktemp("go")
    if go is None:
        pytest.skip("there is no go on the PATH")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        source = Path(__file__).with_name("go")
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
        return subprocess.run(
            [go, *arguments], cwd=source, env=environment, capture_output=True, text=True, timeout=240, check=False
        )

    needed = run("list", "-deps", "./...")
    if needed.returncode:
        pytest.skip(f"the modules of Go can't be had: {needed.stderr.strip()[-200:]}")
    done = run("build", "-ldflags", "-s -w", "-o", f"{programs}{os.sep}", "./...")
    assert done.returncode == 0, done.stderr
    return programs


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


@pytest.fixture
def operated(server: ServerThread, deployment: Callable[[str], dict[str, Any]]) -> Callable[[str], None]:
    """Creates a Deployment that asks for an operator, and waits until that has said that three pods are ready."""

    def wait(name: str) -> None:
        api = Client(KubeConfig.from_file(server.kubeconfig))
        tree = deployment(name)
        tree["metadata"]["labels"] = {"operated": "yes"}
        made: Any = Deployment.from_dict(tree)
        api.create(made)
        for _, seen in api.watch(Deployment, namespace="default", fields={"metadata.name": name}):
            if seen.metadata is not None and (seen.metadata.annotations or {}).get("cranes.example.com/ready") == "3":
                break

    return wait
