"""The package `kubernetes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client, config, watch

from oarlock.testing.thread import ServerThread


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_deployment_is_rolled_out(server: ServerThread, deployment: Callable[[str], dict[str, Any]]) -> None:
    connect: Any = config.new_client_from_config
    with connect(str(server.kubeconfig)) as api:
        apps: Any = client.AppsV1Api(api)
        core: Any = client.CoreV1Api(api)
        make_watch: Any = watch.Watch
        apps.create_namespaced_deployment("default", deployment("kubernetes"))
        watching = make_watch()
        for event in watching.stream(
            apps.list_namespaced_deployment,
            "default",
            field_selector="metadata.name=kubernetes",
            timeout_seconds=60,
        ):
            if event["object"].status.ready_replicas == 3:
                watching.stop()
        pods = core.list_namespaced_pod("default", label_selector="app=kubernetes").items
        assert {pod.status.phase for pod in pods} == {"Running"}
        assert len(pods) == 3
