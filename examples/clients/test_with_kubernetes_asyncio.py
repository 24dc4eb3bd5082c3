"""The package `kubernetes_asyncio`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes_asyncio import client, config, watch

from oarlock.testing.thread import ServerThread


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_deployment_is_rolled_out(server: ServerThread, deployment: Callable[[str], dict[str, Any]]) -> None:
    async def roll_out() -> None:
        async with await config.new_client_from_config(str(server.kubeconfig)) as api:
            apps: Any = client.AppsV1Api(api)
            make_watch: Any = watch.Watch
            await apps.create_namespaced_deployment("default", deployment("asyncio"))
            async with make_watch() as watching:
                async for event in watching.stream(
                    apps.list_namespaced_deployment,
                    "default",
                    field_selector="metadata.name=asyncio",
                    timeout_seconds=60,
                ):
                    if event["object"].status.ready_replicas == 3:
                        break
            pods = await client.CoreV1Api(api).list_namespaced_pod("default", label_selector="app=asyncio")
            assert len(pods.items) == 3

    asyncio.run(roll_out())
