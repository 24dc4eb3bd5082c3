"""Operators beside ``oarlock up``: one in kopf, with peering and definitions that come, and one with `Controller`."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from control_plane_process import ControlPlaneProcess
from definitions import BERTHS, definition
from kubectl import Running
from server_process import ServerProcess
from until import until

OPERATORS = Path(__file__).parent / "operators"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BERTH = "/apis/harbour.example.com/v1/namespaces/default/berths"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ControlPlaneProcess(tmp_path / "server") as server:
        yield server


@contextmanager
def process(server: ServerProcess, *command: str) -> Iterator[Running]:
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "PYTHONUNBUFFERED": "1"}
    started = subprocess.Popen(
        [sys.executable, "-m", *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    told = Running(started)
    try:
        yield told
        started.terminate()
        assert started.wait(20) == 0
    finally:
        started.kill()
        started.wait()
        told.close()


def names(call: Any, path: str) -> set[str]:
    return {one["metadata"]["name"] for one in call("GET", path)["items"]}


def peering() -> dict[str, Any]:
    """kopf's ClusterKopfPeering: one object whose status has an entry for each operator."""
    tree = definition("kopf.dev", "ClusterKopfPeering", {})
    tree["spec"]["scope"] = "Cluster"
    return tree


@pytest.mark.slow
def test_an_operator_in_kopf(server: ServerProcess, api: Callable[[ServerProcess], Any]) -> None:
    call = api(server)
    call("POST", DEFINITIONS, peering())
    peers = "/apis/kopf.dev/v1/clusterkopfpeerings"
    call("POST", peers, {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "default"}})
    with process(
        server, "kopf", "run", "--all-namespaces", "--peering", "default", str(OPERATORS / "berths.py")
    ) as told:
        until(lambda: call("GET", f"{peers}/default").get("status"))
        call("POST", DEFINITIONS, BERTHS)  # the operator learns of it, and watches what it defines
        told.line_with("definition berths.harbour.example.com: ADDED")
        call("POST", BERTH, {"metadata": {"name": "one"}, "spec": {"depth": 2}})
        until(lambda: call("GET", f"{BERTH}/one").get("status", {}).get("boats") == 4)
        until(lambda: any(one["reason"] == "Moored" for one in call("GET", EVENTS)["items"]))
        call.merge(f"{BERTH}/one", {"spec": {"depth": 3}})
        until(lambda: call("GET", f"{BERTH}/one")["status"]["boats"] == 6)
        call("DELETE", f"{BERTH}/one")
        until(lambda: "one" not in names(call, BERTH))
    assert not call("GET", f"{peers}/default").get("status")  # it has left


@pytest.mark.slow
def test_an_operator_with_a_controller(server: ServerProcess, api: Callable[[ServerProcess], Any]) -> None:
    call, file = api(server), str(OPERATORS / "harbour.py")
    printed = subprocess.run(
        [sys.executable, "-m", "oarlock", "crd", file], capture_output=True, check=True, timeout=60, text=True
    )
    call("POST", DEFINITIONS, printed.stdout.encode(), "application/yaml")
    call("POST", BERTH, {"metadata": {"name": "one"}, "spec": {"depth": 2}})
    with process(server, "oarlock", "run", file, "--leader-elect") as told:
        told.line_with("connected")
        until(lambda: call("GET", f"{BERTH}/one").get("status", {}).get("boats") == 4)
        assert call("GET", f"{CONFIG_MAPS}/one")["data"] == {"depth": "2"}
        call("DELETE", f"{CONFIG_MAPS}/one")
        until(lambda: "one" in names(call, CONFIG_MAPS))  # brought back
        leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        assert names(call, leases) == {"harbour"}
        call("DELETE", f"{BERTH}/one")
        until(lambda: "one" not in names(call, CONFIG_MAPS))  # collected with its owner
    with pytest.raises((AssertionError, urllib.error.HTTPError), match="404"):
        call("GET", f"{BERTH}/one")
