"""``ClusterControllers``: a server's controllers work on another server, whose kubeconfig they have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oarlock import APIServer, Model, Resource
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import for_control_plane
from oarlock.client.clock import SystemClock
from oarlock.controllers import ClusterControllers, Controller, ObjectKey, Result
from oarlock.server.assembly.lifecycle import start
from oarlock.server.config import ServerConfig
from oarlock.testing import InMemory

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Silent:
    """Prints nothing."""

    def print_result(self, line: str) -> None:
        return None

    def print_message(self, line: str) -> None:
        return None


class HutSpec(Model):
    """What is wanted."""


class Hut(Resource, group="huts.example.com", version="v1"):
    """What the server itself serves."""

    spec: HutSpec = HutSpec()


class Maps(Controller[dict[str, Any]], of="v1/ConfigMap", namespace="default"):
    """Tells which ConfigMaps it has seen, which its own server has not."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: asyncio.Queue[str] = asyncio.Queue()

    async def reconcile(self, key: ObjectKey) -> Result | None:
        if self.informer.get(key.name, key.namespace) is not None:
            self.seen.put_nowait(key.name)
        return None


async def test_they_follow_the_objects_of_the_cluster(tmp_path: Path) -> None:
    config = ServerConfig(
        storage="memory://", data_dir=tmp_path, secure_port=0, write_kubeconfig=tmp_path / "kubeconfig"
    )
    cluster = await start(ControlPlane(), for_control_plane(config), SystemClock(), Silent())
    try:
        maps = Maps()
        controllers = ClusterControllers([maps])
        controllers.kubeconfig = tmp_path / "kubeconfig"
        async with InMemory(APIServer(serve=[Hut], controllers=[controllers])):
            tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far"}}
            await cluster.client(None, "test").create(tree, namespace="default")
            async with asyncio.timeout(60):
                while await maps.seen.get() != "far":
                    pass
    finally:
        await cluster.shut_down()
