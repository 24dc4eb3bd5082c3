"""What kube-apiserver with kube-controller-manager answered about what controllers do, asked of ``oarlock up``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import ROOT, ServerProcess

SHARED = ROOT.parent / "shared"
TOOL, GOLDEN = SHARED / "tools" / "scenario.py", SHARED / "golden" / "plane.jsonl"
TOKENS = "admintoken,admin,1,system:masters\nalicetoken,alice,2,dev\nbobtoken,bob,3\n"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not GOLDEN.exists(), reason="the recording isn't here"),
]


class ControlPlaneProcess(ServerProcess):
    """``oarlock up`` with the users of the recording."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "", options=["--authorization-mode", "RBAC"])
        (folder / "tokens.csv").write_text(TOKENS)

    def _subject(self) -> list[str]:
        return ["up"]


@pytest.mark.parametrize("topic", ["gc", "quota", "csr"])
def test_controllers_do_what_was_recorded(tmp_path: Path, topic: str) -> None:
    with ControlPlaneProcess(tmp_path / "server") as server:
        command = [sys.executable, str(TOOL), "replay", str(GOLDEN), "--base", server.url, "--only", f"{topic}-"]
        played = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert re.search(r"\b0 failed", played.stdout), played.stdout[-4_000:]
