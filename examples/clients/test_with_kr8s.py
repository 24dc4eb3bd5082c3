"""The package `kr8s`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kr8s
import pytest
from kr8s.objects import Deployment

from oarlock.testing.thread import ServerThread


@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_deployment_is_rolled_out(server: ServerThread, deployment: Callable[[str], dict[str, Any]]) -> None:
    api = kr8s.api(kubeconfig=str(server.kubeconfig))
    made = Deployment(deployment("kr8s"), api=api)
    made.create()
    made.wait("condition=Available", timeout=60)
    pods = made.pods()
    assert len(pods) == 3
    assert list(pods[0].logs()) == ["ready to lift"]
