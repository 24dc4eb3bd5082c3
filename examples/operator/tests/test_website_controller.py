"""The controller of the kind Website, on the real server in memory and in virtual time."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from oarlock import ControlPlane
from oarlock.controllers import ControllerGroup
from oarlock.testing import InMemory, VirtualClock

from websites.api.v1.website import Website
from websites.controllers.website import WebsiteController

pytestmark = pytest.mark.anyio


async def test_a_website_gets_a_page_and_servers(sample: Callable[[str], dict[str, Any]]) -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(serve=[Website]), clock=clock) as api:
        made = await api.post("/apis/web.example.com/v1/namespaces/default/websites", sample("website"))
        assert made.status == 201, made.json
        client = api.client()
        async with ControllerGroup([WebsiteController()]).running(client, clock) as run:
            await run.idle()
            seen = await client.get(Website, "example", namespace="default")
            assert seen.status is not None
            assert [(one.type, one.status) for one in seen.status.conditions] == [("Ready", "False")]
            page = await client.get("v1/ConfigMap", "example-page", namespace="default")
            assert "<h1>Fish &amp; chips</h1>" in page["data"]["index.html"]

            counted = {"status": {"replicas": 2, "readyReplicas": 2}}
            ready = await api.patch("/apis/apps/v1/namespaces/default/deployments/example/status", counted)
            assert ready.status == 200, ready.json
            async with aclosing(client.watch(Website, namespace="default")) as events:
                async for event in events:
                    status = event.object.status
                    if status is not None and status.ready_replicas == 2:
                        assert [(one.type, one.status) for one in status.conditions] == [("Ready", "True")]
                        break
