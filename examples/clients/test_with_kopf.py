"""The package `kopf`: an operator that runs in a thread, on the cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kopf.testing import KopfRunner
from lightkube import Client, KubeConfig
from lightkube.resources.apps_v1 import Deployment

from oarlock.testing.thread import ServerThread

OPERATOR = Path(__file__).with_name("crane_operator.py")
READY = "cranes.example.com/ready"
"""Set by the operator."""


def test_an_operator_sees_a_deployment_get_ready(
    server: ServerThread, deployment: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    with KopfRunner(
        ["run", "--verbose", "--standalone", "--namespace", "default", str(OPERATOR)], timeout=60
    ) as runner:
        api = Client(KubeConfig.from_file(server.kubeconfig))
        tree = deployment("kopf")
        tree["metadata"]["labels"] = {"operated": "yes"}
        made: Any = Deployment.from_dict(tree)
        api.create(made)
        for _, seen in api.watch(Deployment, namespace="default", labels={"operated": "yes"}, server_timeout=60):
            if seen.metadata is not None and (seen.metadata.annotations or {}).get(READY) == "3":
                break
    assert runner.exception is None
