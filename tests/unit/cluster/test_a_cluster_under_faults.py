"""A cluster in memory goes on: without some of its nodes' time, without a server for a minute, after any crash."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest
from cluster_kit import pod_template
from thoroughness import rounds

from oarlock.storage.backend import WriteResult
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import VirtualClock
from oarlock_cluster.testing import ClusterInMemory

pytestmark = pytest.mark.anyio

COUNTED = ("/pods/", "/replicasets/", "/deployments/")


def _deployment(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": pod_template("web"),
        },
    }


async def _status(cluster: ClusterInMemory) -> Any:
    return (await cluster.client.get("apps/v1/Deployment", "web", namespace="default"))["status"]


@pytest.mark.parametrize("seconds", [3600, -3600])
@pytest.mark.cluster(nodes=1)
async def test_a_node_whose_clock_is_wrong_is_not_lost_and_runs_pods(cluster: ClusterInMemory, seconds: float) -> None:
    cluster.nodes["n1"].skew(seconds)
    cluster.behave("web", start_s=5, ready_after_s=5)
    await cluster.client.create(_deployment(1))
    await cluster.run(600)
    assert (await _status(cluster))["readyReplicas"] == 1
    assert not (await cluster.client.get("v1/Node", "n1"))["spec"].get("taints")


@pytest.mark.cluster(nodes=1)
async def test_a_server_that_is_away_for_a_minute_and_watches_that_are_slow_and_cut(cluster: ClusterInMemory) -> None:
    pods = "/api/v1/namespaces/default/pods"
    async with cluster.api.watch(pods) as watch:
        cluster.faults.away(seconds=60)
        assert (await cluster.api.get(pods)).status == 503
        with pytest.raises(EOFError):
            await watch.next()
    await cluster.run(61)
    await cluster.client.create(_deployment(1))
    await cluster.settle()

    async def first() -> Any:
        async with cluster.api.watch(pods) as slow:
            found = await slow.next()
            assert cluster.faults.cut_watches("v1/Pod") == 1
            return found

    with cluster.faults.slow("watch", "v1/Pod", by_s=5):
        watching = asyncio.create_task(first())
        await cluster.run(4)
        assert not watching.done()
        await cluster.run(2)
        assert (await watching)[0] == "ADDED"


class _RecordingBackend(MemoryBackend):
    """Keeps what is stored after each write to a workload, and the names of all pods with their images."""

    def __init__(self, stored: Iterable[tuple[str, bytes]] = ()) -> None:
        super().__init__(VirtualClock())
        self._stored = stored
        self.moments: list[list[tuple[str, bytes]]] | None = None
        self.pods: dict[str, str] = {}

    async def start(self) -> None:
        await super().start()
        for key, value in self._stored:
            await super().put(key, value, expect=0)
            self._note(key, value)

    async def put(self, key: str, value: bytes, **rest: Any) -> WriteResult:
        result = await super().put(key, value, **rest)
        if result.ok:
            self._note(key, value)
            await self._keep(key)
        return result

    async def delete(self, key: str, **rest: Any) -> WriteResult:
        result = await super().delete(key, **rest)
        await self._keep(key)
        return result

    def _note(self, key: str, value: bytes) -> None:
        if "/pods/" in key:
            self.pods[key] = json.loads(value)["spec"]["containers"][0]["image"]

    async def _keep(self, key: str) -> None:
        if self.moments is not None and any(part in key for part in COUNTED):
            self.moments.append([(kv.key, kv.value) for kv in (await self.list("/", "0")).kvs])


async def _state(cluster: ClusterInMemory, backend: _RecordingBackend) -> tuple[Any, list[str], list[str]]:
    status = await _status(cluster)
    counts = {key: value for key, value in status.items() if key.endswith("eplicas")}
    alive = [pod["spec"]["containers"][0]["image"] async for pod in cluster.client.list("v1/Pod")]
    return counts, alive, sorted(backend.pods.values())


async def test_a_crash_after_any_write_of_a_rollout_ends_in_the_same_state_and_makes_no_pod_twice() -> None:
    backend = _RecordingBackend()
    async with ClusterInMemory(nodes=1, storage=backend) as cluster:
        await cluster.client.create(_deployment(1))
        await cluster.settle()
        backend.moments = []
        patch = {"spec": {"template": pod_template("web", "i:2")}}
        await cluster.client.patch("apps/v1/Deployment", "web", patch, namespace="default")
        await cluster.settle()
        undisturbed = await _state(cluster, backend)
    assert undisturbed[1:] == (["i:2"], ["i:1", "i:2"])
    assert len(backend.moments) > 10
    moments, count = backend.moments, rounds(len(backend.moments), 4)
    for moment in (moments[at * len(moments) // count] for at in range(count)):
        again = _RecordingBackend(moment)
        async with ClusterInMemory(nodes=1, storage=again) as cluster:
            await cluster.settle(quiet_s=40)
            counts, alive, made = await _state(cluster, again)
            assert (counts, alive) == undisturbed[:2]
            assert made in (["i:1", "i:2"], ["i:2"])  # the first was gone already
