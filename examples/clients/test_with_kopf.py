"""The package `kopf`: an operator that runs in a thread, on the cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kopf.testing import KopfRunner

from oarlock.testing.thread import ServerThread

OPERATOR = Path(__file__).with_name("crane_operator.py")


def test_an_operator_sees_a_deployment_get_ready(
    server: ServerThread, operated: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    with KopfRunner(["run", "--standalone", "--namespace", "default", str(OPERATOR)], timeout=60) as runner:
        operated("kopf")
    assert runner.exception is None
