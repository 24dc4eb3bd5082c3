"""client-go and controller-runtime, in the programs of go/."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oarlock.testing.thread import ServerThread

pytestmark = pytest.mark.slow


def test_a_deployment_is_rolled_out(
    server: ServerThread, deployment: Callable[[str], dict[str, Any]], go_programs: Path
) -> None:
    done = subprocess.run(
        [go_programs / "rollout"],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        input=json.dumps(deployment("client-go")),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3


def test_an_operator_sees_a_deployment_get_ready(
    server: ServerThread, operated: Callable[[str], None], go_programs: Path
) -> None:
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    with subprocess.Popen([go_programs / "marker"], env=environment, stdin=subprocess.DEVNULL) as operator:
        try:
            operated("controller-runtime")
            operator.terminate()
            assert operator.wait(60) == 0
        finally:
            operator.kill()
