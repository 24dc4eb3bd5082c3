"""Exchanges recorded with kube-apiserver and its controllers, sent to ``oarlock up``, are answered as recorded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from server_process import ROOT, ControlPlaneProcess, ServerProcess

TOOL = ROOT.parent / "shared" / "tools" / "scenario.py"
RECORDING = ROOT.parent / "shared" / "golden" / "plane.jsonl"
TOKENS = "admintoken,admin,1,system:masters\nalicetoken,alice,2,dev\nbobtoken,bob,3\n"
WHOLE = ("anon-", "cred-", "self-", "tr-")
"""The topics of which nothing is answered otherwise."""


class RecordedPlane(ControlPlaneProcess):
    """With the users of the recording, and authorization that decides on anonymous requests."""

    def start(self) -> ServerProcess:
        (self.folder / "tokens.csv").write_text(TOKENS)
        return super().start()

    def _command(self) -> list[str]:
        command = super()._command()
        at = command.index("--anonymous-paths")
        return [*command[:at], *command[at + 2 :]]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    if not TOOL.exists():
        pytest.skip("the replay tool and its recording are not beside this checkout")
    with RecordedPlane(tmp_path_factory.mktemp("plane"), "memory://") as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("topic", WHOLE)
def test_a_topic_is_answered_as_recorded(plane: ServerProcess, topic: str) -> None:
    command = [sys.executable, str(TOOL), "replay", str(RECORDING), "--base", plane.url, "--only", topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.rstrip().endswith(" 0 failed"), done.stdout + done.stderr
    assert not done.stdout.startswith("0 passed")
