"""Custom resources of a control plane, converted by a webhook: on two servers of a store, and behind a Service."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from conversion_service import GROUP, links
from crd_kit import established

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.crds.conversion import StoredServices
from oarlock.client.webhooks import WebhookError, WebhookService
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

V1 = f"/apis/{GROUP}/v1/namespaces/default/links"
V2 = V1.replace("/v1/", "/v2/")
HOOK = WebhookService("default", "hook")


def link(version: str, name: str, **spec: str) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Link", "metadata": {"name": name}, "spec": spec}


async def test_two_servers_of_a_store_ask_the_same_webhook(tmp_path: Path) -> None:
    stores = [SqliteBackend(tmp_path / "store.db", VirtualClock()) for _ in range(2)]
    servers = [InMemory(ControlPlane(), backend=store) for store in stores]
    async with servers[0] as one, servers[1] as other:
        await established(one, links({"url": "https://127.0.0.1:1/convert"}))
        assert (await other.post(V1, link("v1", "a", host="h", port="1"))).status == 201
        refused = (await other.get(f"{V2}/a")).json
        assert refused["message"].startswith(f"conversion webhook for {GROUP}/v1, Kind=Link failed: Post ")
        async with other.watch(f"/apis/{GROUP}/v1/links?resourceVersion=0") as events:
            assert (await events.next())[1]["spec"] == {"host": "h", "port": "1"}
            assert (await one.patch(f"{V1}/a", {"spec": {"port": "2"}})).status == 200
            assert (await events.next())[1]["spec"] == {"host": "h", "port": "2"}


async def made(api: InMemory, path: str, body: dict[str, Any]) -> None:
    answer = await api.post(path, body)
    assert answer.status == 201, answer.json


async def test_a_service_is_where_its_endpoints_are() -> None:
    turns = itertools.count()
    find = StoredServices(lambda ready: ready[next(turns) % len(ready)])
    with pytest.raises(WebhookError, match='service "hook" is not known yet'):
        await find(HOOK)
    async with InMemory(ControlPlane()) as api:
        find.client = api.client()
        with pytest.raises(WebhookError, match=r'^service "hook" not found$'):
            await find(HOOK)
        services, slices = (
            "/api/v1/namespaces/default/services",
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        )
        spec = {"ports": [{"name": "tls", "port": 443}], "clusterIP": "None"}
        await made(api, services, {"metadata": {"name": "hook"}, "spec": spec})
        with pytest.raises(WebhookError, match=r'no endpoints available for service "hook"'):
            await find(HOOK)
        with pytest.raises(WebhookError, match='no service port 8443 found for service "hook"'):
            await find(WebhookService("default", "hook", 8443))
        endpoint = {
            "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
            "addressType": "IPv4",
            "ports": [{"name": "tls", "port": 9443, "protocol": "TCP"}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": False}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": True}},
                {"addresses": ["10.0.0.3"]},
            ],
        }
        await made(api, slices, endpoint)
        assert [await find(HOOK) for _ in range(3)] == ["10.0.0.2:9443", "10.0.0.3:9443", "10.0.0.2:9443"]
        await made(
            api,
            services,
            {"metadata": {"name": "plain"}, "spec": {"ports": [{"port": 443}]}},
        )
        address = (await api.get(f"{services}/plain")).json["spec"]["clusterIP"]
        assert await find(WebhookService("default", "plain")) == f"{address}:443"
        external = {"type": "ExternalName", "externalName": "hook.example.com"}
        await made(api, services, {"metadata": {"name": "away"}, "spec": external})
        assert await find(WebhookService("default", "away", 8443)) == "hook.example.com:8443"
