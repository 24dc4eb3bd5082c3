"""One class in our own server, and in one behind a cluster, whose clients ask the cluster: writes end alike in both."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from home_requests import all_told
from silent_terminal import Silent
from webhook_home import GROUP, harbour

from oarlock.client.clock import SystemClock
from oarlock.client.keywords import warnings_of
from oarlock.client.transport import ClientRequest, ClientResponse, Transport
from oarlock.meta.context import User
from oarlock.server.assembly.lifecycle import start
from oarlock.server.assembly.run import Running
from oarlock.server.config import ExtensionConfig
from oarlock.testing.server import InMemory

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

NONE: Mapping[str, str] = {}


class Answer:
    """What `told` looks at."""

    def __init__(self, answer: ClientResponse, body: bytes) -> None:
        self.status, self.body = answer.status, body
        self.warnings = warnings_of(answer.headers.get("warning", ""))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ThroughCluster:
    """Asks the cluster as its administrator."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NONE) -> Answer:
        path, _, query = path.partition("?")
        pairs = [(name, value) for name, _, value in (part.partition("=") for part in query.split("&") if part)]
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        request = ClientRequest(method, path, pairs, [*headers.items()], data, 30.0)
        answer = await self._transport.send(request)
        return Answer(answer, await answer.read())

    async def get(self, path: str) -> Answer:
        return await self.request("GET", path)

    async def post(self, path: str, body: Any) -> Answer:
        return await self.request("POST", path, body, {"content-type": "application/json"})


@asynccontextmanager
async def harbour_behind(cluster: Running, folder: Path) -> AsyncIterator[ThroughCluster]:
    login = folder / "cluster" / "oarlock.kubeconfig"
    config = ExtensionConfig(
        storage="memory://",
        data_dir=folder / "harbour",
        secure_port=0,
        cluster_kubeconfig=login,
        authentication_kubeconfig=login,
        authorization_kubeconfig=login,
        tls_sans=("harbour.default.svc",),
    )
    running = await start(harbour(), config, SystemClock(), Silent())
    try:
        admin = cluster.client(None, "test")
        assert running.parts.server.address is not None
        assert running.parts.server.address.ca is not None
        for version in ("v1", "v1alpha1"):
            annotations = {"oarlock.dev/url": running.url}
            spec = {
                "group": GROUP,
                "version": version,
                "groupPriorityMinimum": 1000,
                "versionPriority": 10,
                "service": {"namespace": "default", "name": "harbour"},
                "caBundle": base64.b64encode(running.parts.server.address.ca).decode(),
            }
            head = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
            metadata = {"name": f"{version}.{GROUP}", "annotations": annotations}
            await admin.create({**head, "metadata": metadata, "spec": spec})
        through = ThroughCluster(cluster.client(User("admin", groups=("system:masters",)), "test").transport)
        async with asyncio.timeout(60):
            for version in ("v1", "v1alpha1"):
                while (await through.request("GET", f"/apis/{GROUP}/{version}")).status != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        yield through
    finally:
        await running.shut_down()


async def test_a_write_through_a_cluster_ends_as_in_our_own_server(cluster: Running, tmp_path: Path) -> None:
    async with InMemory(harbour()) as api:
        own = await all_told(api)
    async with harbour_behind(cluster, tmp_path) as asked:
        through = await all_told(asked)
    differ = {name: (own[name], through[name]) for name in own if own[name] != through[name]}
    assert differ == {}, json.dumps(differ, indent=1)
