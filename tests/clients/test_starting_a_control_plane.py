"""How a control plane starts: on what it has left, beside another one, after being killed, on a port in use."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from control_plane_process import ControlPlaneProcess
from database_process import free_port
from definitions import BERTHS, bundle
from server_process import ServerProcess, environment
from until import until

Call = Callable[[ServerProcess], Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

pytestmark = pytest.mark.slow


def started(folder: Path, store: Path, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "oarlock", "up", "--secure-port", str(port), "--storage", f"sqlite:///{store}"]
    command += ["--data-dir", str(folder)]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False
    )


def names(call: Any, path: str) -> set[str]:
    return {one["metadata"]["name"] for one in call("GET", path)["items"]}


def conditions(call: Any, name: str) -> set[str]:
    """The conditions of a definition that are true."""
    found = call("GET", f"{DEFINITIONS}/{name}").get("status", {}).get("conditions") or ()
    return {one["type"] for one in found if one["status"] == "True"}


def test_killed_while_it_starts(tmp_path: Path, api: Call) -> None:
    """Whatever a killed start has left, the next one completes."""
    server = ControlPlaneProcess(tmp_path)
    for after_s in (0.3, 0.5, 0.6, 0.7, 0.8):
        process = started(tmp_path, tmp_path / "store.db", free_port())
        time.sleep(after_s)  # some place in the start; which one differs from machine to machine
        process.kill()
        process.communicate()
    with server:
        call = api(server)
        assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= names(call, "/api/v1/namespaces")
        roles = names(call, "/apis/rbac.authorization.k8s.io/v1/clusterroles")
        assert {"cluster-admin", "admin", "edit", "view", "system:basic-user"} <= roles


def test_killed_while_definitions_are_installed(tmp_path: Path, api: Call) -> None:
    """A definition that was acknowledged is served after the next start, without anybody doing anything."""
    with ControlPlaneProcess(tmp_path) as server:
        call = api(server)
        parts = bundle("parts.example.com", kinds=6, fields=20)
        for one in parts:
            call("POST", DEFINITIONS, one)
        server.restart()
        for one in parts:
            plural = one["spec"]["names"]["plural"]
            path = f"/apis/parts.example.com/v1/namespaces/default/{plural}"
            until(lambda name=one["metadata"]["name"]: "Established" in conditions(call, name))
            call("POST", path, {"metadata": {"name": "a"}, "spec": {"field1": "x"}})


def test_two_servers_on_one_store(tmp_path: Path, api: Call) -> None:
    """Each serves at once what the other was given; each has its own lease."""
    with ControlPlaneProcess(tmp_path) as first, ControlPlaneProcess(tmp_path, first.storage) as second:
        call, other = api(first), api(second)
        call("POST", DEFINITIONS, BERTHS)
        berth = "/apis/harbour.example.com/v1/namespaces/default/berths"
        other("POST", berth, {"metadata": {"name": "one"}, "spec": {"depth": 2}})
        assert call("GET", f"{berth}/one")["spec"] == {"depth": 2}
        leases = names(call, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
        assert len({one for one in leases if one.startswith("apiserver-")}) == 2


def test_a_data_directory_is_used_again(tmp_path: Path, api: Call) -> None:
    """Token and certificates stay, so that clients notice nothing of a restart."""
    folder, port = tmp_path / "data", free_port()
    folder.mkdir()
    seen = []
    for _ in range(2):
        process = started(folder, tmp_path / "store.db", port)
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith(f"kubectl --kubeconfig {folder}/store.kubeconfig get ")
        seen.append([(folder / name).read_bytes() for name in ("store.token", "store.kubeconfig", "pki/ca.crt")])
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert seen[0] == seen[1]


def test_a_port_in_use_is_told_in_one_line(tmp_path: Path) -> None:
    with ControlPlaneProcess(tmp_path / "first") as server:
        process = started(tmp_path, tmp_path / "store.db", server.port)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 1
        lines = told.decode().splitlines()
        assert len(lines) == 1
        assert lines[0].startswith("oarlock: ")
        assert f":{server.port}" in lines[0]
        assert lines[0].endswith("stop what listens there, or choose another --secure-port")
        with urllib.request.urlopen(f"{server.url}/version", context=server.tls(), timeout=30) as answer:
            assert json.load(answer)["major"] == "1"
