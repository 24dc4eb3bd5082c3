"""Containers that are processes of this machine: logs, exit codes, restarts, and their end with pod and server."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from oarlock import ControlPlane
from oarlock.extend import ConfigError, SystemClock
from oarlock.testing import InMemory, VirtualClock
from oarlock_cluster.nodes.kubelets import SimulatedNodes
from oarlock_cluster.nodes.processes import LOG_BYTES, ContainerProcesses, LocalCommand, commands_of
from oarlock_cluster.simulation import nodes_part
from oarlock_cluster.up import PARTS, SimulationOptions

PODS = "/api/v1/namespaces/default/pods"
PROGRAM = """
import os, signal, sys, time
print(os.getpid(), sys.argv[1:], os.environ.get("CRANE"), os.environ.get("SECRET"), flush=True)
if sys.argv[1:] == ["stays"]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("lifts", flush=True)
    signal.pause()
elif sys.argv[1:] == ["ignores"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("lifts", flush=True)
    while True:
        signal.pause()
print("x\\n" * 1_000_000 + "x falls")
sys.exit(int(sys.argv[1]))
"""
COMMANDS = {"crane": LocalCommand([sys.executable, "-c", PROGRAM], ["CRANE"])}


def _pod(name: str, arg: str, image: str = "oarlock.local/crane", **spec: Any) -> dict[str, Any]:
    env = [{"name": "CRANE", "value": "big"}, {"name": "SECRET", "value": "no"}]
    container = {"name": "c", "image": image, "args": [arg], "env": env}
    return {"metadata": {"name": name}, "spec": {"nodeName": "node-0", "containers": [container], **spec}}


@asynccontextmanager
async def _cluster() -> AsyncIterator[InMemory]:
    """A node on the machine's clock, once pods can be created."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}}
    nodes = SimulatedNodes([node], processes=ContainerProcesses(COMMANDS))
    async with InMemory(ControlPlane(parts=[nodes_part(nodes)]), clock=SystemClock()) as api:
        async with api.watch("/api/v1/namespaces/default/serviceaccounts") as accounts:
            assert (await accounts.next(30))[0] == "ADDED"
        yield api


async def _create(api: InMemory, pod: dict[str, Any]) -> None:
    answer = await api.post(PODS, pod)
    assert answer.status == 201, answer.json


async def _reached(api: InMemory, name: str, reached: Callable[[Any], bool]) -> Any:
    """The pod once it is so, or gone."""
    async with api.watch(PODS) as events:
        while True:
            event, pod = await events.next(30)
            if pod["metadata"]["name"] == name and (event == "DELETED" or reached(pod)):
                return pod


async def _gone(api: InMemory, name: str) -> None:
    async with api.watch(f"{PODS}?fieldSelector=metadata.name={name}") as events:
        await api.delete(f"{PODS}/{name}")
        while (await events.next(30))[0] != "DELETED":
            pass


async def _lifts(api: InMemory, name: str) -> int:
    """The id of a process that has logged that it lifts."""
    await _reached(api, name, _runs)
    async with api.follow(f"{PODS}/{name}/log?follow=true") as lines:
        number, said = (await lines.line(30)).split(b" ", 1)
        assert said == f"['{name}'] big None".encode()
        assert await lines.line(30) == b"lifts"
    return int(number)


def _runs(pod: Any) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.anyio
async def test_exit_codes_are_the_status_and_logs_are_bounded() -> None:
    async with _cluster() as api:
        await _create(api, _pod("done", "0", restartPolicy="Never"))
        await _create(api, _pod("crashes", "3"))
        done = await _reached(api, "done", lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
        assert done["status"]["phase"] == "Succeeded"
        assert done["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        log = (await api.get(f"{PODS}/done/log?follow=true")).body
        assert log.endswith(b"x falls\n")
        assert len(log) <= LOG_BYTES
        crashed = await _reached(
            api, "crashes", lambda pod: "lastState" in pod["status"].get("containerStatuses", [{}])[0]
        )
        status = crashed["status"]["containerStatuses"][0]
        assert status["lastState"]["terminated"]["exitCode"] == 3
        assert status["state"]["waiting"]["message"].startswith("back-off 10s restarting failed container=c")


@pytest.mark.anyio
async def test_processes_end_with_their_pod_and_with_the_server() -> None:
    async with _cluster() as api:
        for name in ("stays", "ignores"):
            await _create(api, _pod(name, name, terminationGracePeriodSeconds=1))
        await _create(api, _pod("other", "stays", "crane:1"))
        stays, ignores = await _lifts(api, "stays"), await _lifts(api, "ignores")
        await _gone(api, "ignores")  # it is killed after its grace period
        assert not _is_alive(ignores)
        assert _is_alive(stays)
        await _reached(api, "other", _runs)
        assert (await api.get(f"{PODS}/other/log")).body == b""  # it is simulated
    assert not _is_alive(stays)


@pytest.mark.anyio
async def test_pods_choose_no_other_command() -> None:
    async with _cluster() as api:
        container = {"name": "c", "image": "oarlock.local/crane", "command": ["sh"]}
        await _create(api, _pod("unknown", "0", "oarlock.local/sh"))
        await _create(api, {**_pod("own", "0"), "spec": {"nodeName": "node-0", "containers": [container]}})
        for name, why in (("unknown", "has no such process"), ("own", "no command but the server's")):
            pod = await _reached(api, name, lambda pod: "containerStatuses" in pod["status"])
            waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
            assert waiting["reason"] == "ErrImagePull"
            assert why in waiting["message"]


@pytest.mark.anyio
async def test_there_are_no_processes_on_a_virtual_clock() -> None:
    nodes = SimulatedNodes(processes=ContainerProcesses(COMMANDS))
    async with InMemory(ControlPlane()) as api:
        with pytest.raises(RuntimeError, match="the machine's clock"):
            await nodes.run(api.client(), VirtualClock())


def test_the_operator_lists_the_commands(tmp_path: Path) -> None:
    tree = {"processes": {"web": ["web", "--port=80"], "crane": {"command": ["crane"], "env": ["CRANE_*"]}}}
    assert commands_of(tree) == {
        "web": LocalCommand(("web", "--port=80")),
        "crane": LocalCommand(("crane",), ("CRANE_*",)),
    }
    file = tmp_path / "nodes.yaml"
    file.write_text("processes: {web: web --port=80}\n")
    for nodes, run, why in (
        (str(file), "processes", "processes: web: write a list of strings"),
        ("3", "processes", "listed in a file"),
        ("", "processes", "write processes, with --nodes=FILE"),
        (str(file), "containers", "write processes, with --nodes=FILE"),
    ):
        with pytest.raises(ConfigError, match=why):
            PARTS.parts(SimulationOptions(nodes=nodes, run_containers=run))
    assert PARTS.parts(SimulationOptions(nodes=str(file)))
