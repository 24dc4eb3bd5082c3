"""Replays what kube-apiserver was recorded to answer about workload kinds, and in discovery, at a control plane."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_process import ROOT, ServerProcess

TOOL = ROOT.parent / "shared" / "tools" / "scenario.py"
RECORDING = ROOT.parent / "shared" / "golden" / "plane.jsonl"
TOKENS = "admintoken,admin,1,system:masters\nalicetoken,alice,2,dev\nbobtoken,bob,3\n"
ELSEWHERE = {"disc-10"}
"""Those that docs/differences.md lists."""

pytestmark = pytest.mark.skipif(not RECORDING.exists(), reason="the recording isn't here")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    program = ROOT / "tests" / "clients" / "roles" / "server.py"
    server = ServerProcess(tmp_path_factory.mktemp("recorded"), program, "memory://")
    (server.folder / "tokens.csv").write_text(TOKENS)
    with server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize(("topic", "count"), [("kind-", 52), ("disc-", 20)])
def test_a_topic_is_answered_as_recorded(plane: ServerProcess, tmp_path: Path, topic: str, count: int) -> None:
    outcome = tmp_path / "outcome.json"
    command = [sys.executable, str(TOOL), "replay", str(RECORDING), "--base", plane.url, "--ca", str(plane.ca)]
    done = subprocess.run(
        [*command, "--only", topic, "--json", str(outcome)], capture_output=True, text=True, timeout=120, check=False
    )
    exchanges = json.loads(outcome.read_text())
    assert len(exchanges) == count
    assert {one["id"] for one in exchanges if not one["ok"]} <= ELSEWHERE, done.stdout
