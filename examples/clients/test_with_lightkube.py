"""The package `lightkube`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lightkube import Client, KubeConfig
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Pod

from oarlock.testing.thread import ServerThread


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_deployment_is_rolled_out(server: ServerThread, deployment: Callable[[str], dict[str, Any]]) -> None:
    api = Client(KubeConfig.from_file(server.kubeconfig))
    tree: Any = Deployment.from_dict(deployment("lightkube"))
    api.create(tree)
    api.wait(Deployment, "lightkube", for_conditions=["Available"], namespace="default")
    pods = list(api.list(Pod, namespace="default", labels={"app": "lightkube"}))
    assert len(pods) == 3
