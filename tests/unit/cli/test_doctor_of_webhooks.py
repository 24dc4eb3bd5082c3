"""``oarlock doctor --webhooks``: what it says of webhooks that are broken in one way each; the cluster is oarlock."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from crd_kit import established
from loopback_endpoints import store_slice
from webhook_home import harbour, webhooks_of

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.cli.declaring_commands import exported
from oarlock.cli.deploying.webhook_objects import ClusterWebhooks, PlacedWebhooks
from oarlock.cli.doctor.command import webhooks_page
from oarlock.client.client import Client
from oarlock.server.serving.certificates.issuing import new_authority
from oarlock.testing.server import InMemory

pytestmark = pytest.mark.anyio

NOW = time.time()  # a handshake looks at the machine's clock
Tree = dict[str, Any]

VALIDATING = "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration"
MUTATING = "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration"


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Client]:
    """A cluster with definitions and webhooks as they should be, which run."""
    server = harbour()
    async with InMemory(ControlPlane()) as api, webhooks_of(server, api, folder, "harbour.shop.svc") as running:
        address = running.parts.server.address
        assert address is not None
        ca = base64.b64encode(address.ca or b"").decode()
        client = api.client()
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        service = {"spec": {"clusterIP": "None", "ports": [{"name": "https", "port": 443}]}}
        made = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "harbour"}, **service}
        await client.create(made, namespace="shop")
        metadata = {"name": "harbour-x", "labels": {"kubernetes.io/service-name": "harbour"}}
        port = int(address.url.rpartition(":")[2])
        endpoints = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata,
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
        }
        await store_slice(api, "shop", endpoints)

        def client_config(path: str) -> Tree:
            return {"service": {"namespace": "shop", "name": "harbour", "path": path}, "caBundle": ca}

        for served in server.catalog.resources:
            await established(api, exported(served.definition))
        place = PlacedWebhooks("harbour", client_config, "shop")
        for tree in ClusterWebhooks(server.catalog.resources, server.user_code.admission, place).objects():
            await client.apply(tree, force=True)
        yield client


async def test_webhooks_that_are_well(tmp_path: Path):
    async with cluster(tmp_path) as client:
        lines, healthy = await webhooks_page(client, "harbour", NOW)
    assert healthy, lines
    told = "\n".join(lines)
    assert "ok  MutatingWebhookConfiguration harbour: asks mutate.berths.harbour.example.com" in told
    assert "ok  CustomResourceDefinition berths.harbour.example.com: is established" in told
    assert "is for harbour.shop.svc" in told


async def test_each_breakage_is_named_with_what_to_do(tmp_path: Path):
    async with cluster(tmp_path) as client:

        async def broken(kind: str, operations: list[Tree], told: str, name: str = "harbour", **where: str) -> None:
            before = await client.get(kind, name, **where)
            await client.patch(kind, name, operations, type="json", **where)
            lines, healthy = await webhooks_page(client, "harbour", NOW)
            assert not healthy
            assert told in "\n".join(lines)
            before["metadata"].pop("resourceVersion")
            before["metadata"].pop("managedFields", None)
            await client.update(before, **where)

        config = "/webhooks/0/clientConfig"
        other = base64.b64encode(new_authority(datetime.fromtimestamp(NOW, UTC)).certificate_pem).decode()
        await broken(
            VALIDATING,
            [{"op": "remove", "path": "/webhooks/0/namespaceSelector"}],
            "BAD Webhook validate.berths.harbour.example.com: is also asked about its own namespace shop",
        )
        await broken(MUTATING, [{"op": "remove", "path": f"{config}/caBundle"}], "BAD caBundle of mutate.berths")
        await broken(
            MUTATING,
            [{"op": "replace", "path": f"{config}/caBundle", "value": other}],
            "BAD caBundle: 2 different ones are in the objects that name shop/harbour",
        )
        await broken(
            VALIDATING,
            [{"op": "replace", "path": f"{config}/service/name", "value": "boatyard"}],
            "BAD Service shop/boatyard: doesn't exist",
        )
        await broken(
            "v1/Service",
            [{"op": "replace", "path": "/spec/ports/0/port", "value": 8443}],
            "BAD Service shop/harbour: has no port 443; it has 8443",
            namespace="shop",
        )
        await broken(MUTATING, [{"op": "remove", "path": "/webhooks"}], "has no webhooks")


async def test_configurations_that_are_not_there(tmp_path: Path):
    async with InMemory(ControlPlane()) as api:
        lines, healthy = await webhooks_page(api.client(), "harbour", NOW)
    assert not healthy
    assert lines[-1].startswith("  fix first: Configurations harbour there are none: apply what oarlock manifests")
