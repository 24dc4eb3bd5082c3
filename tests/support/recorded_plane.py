"""What kube-apiserver was recorded to answer, asked of a server by the replay tool that lies beside the checkout."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest
from server_process import ROOT, ControlPlaneProcess, ServerProcess

SHARED = ROOT.parent / "shared"
TOOL = SHARED / "tools" / "scenario.py"
AGE = re.compile(r'\.cells\[.*: want "\d+s", got "\d+s"$')
"""An age in a table, which depends on how busy the machine is."""
TOKENS = "admintoken,admin,1,system:masters\nalicetoken,alice,2,dev\nbobtoken,bob,3\n"


class RecordedPlane(ControlPlaneProcess):
    """``oarlock up`` with the users of the recordings, and authorization that decides on anonymous requests."""

    def __init__(self, folder: Path, options: Iterable[str] = ()) -> None:
        super().__init__(folder, "memory://", options)

    def start(self) -> ServerProcess:
        (self.folder / "tokens.csv").write_text(TOKENS)
        return super().start()

    def _command(self) -> list[str]:
        command = super()._command()
        at = command.index("--anonymous-paths")
        return [*command[:at], *command[at + 2 :]]


def replay(
    server: ServerProcess, recording: str, topic: str = "", limit_s: float = 120, elsewhere: Collection[str] = ()
) -> dict[str, list[str]]:
    """Replay a recording, or only one `topic` of it; what was answered otherwise, by the exchange's id.

    Those `elsewhere` are known to be answered otherwise, so that nobody waits for the recorded answer.
    """
    path = SHARED / "golden" / f"{recording}.jsonl"
    if not (TOOL.exists() and path.exists()):
        pytest.skip("the replay tool and its recording are not beside this checkout")
    exchanges = [json.loads(line) for line in path.read_text().splitlines()]
    for exchange in exchanges:
        if exchange["id"] in elsewhere and "until" in exchange:
            exchange["until"] = 1
    sent = server.folder / f"{recording}-{topic}sent.jsonl"
    sent.write_text("\n".join(map(json.dumps, exchanges)))
    outcome = server.folder / f"{recording}-{topic}outcome.json"
    command = [sys.executable, str(TOOL), "replay", str(sent), "--base", server.url, "--json", str(outcome)]
    only = ["--only", topic] if topic else []
    done = subprocess.run([*command, *only], capture_output=True, text=True, timeout=limit_s, check=False)
    assert outcome.exists(), done.stdout + done.stderr
    answered = json.loads(outcome.read_text())
    assert answered, f"{recording} has no exchange of {topic}"
    differences = {
        exchange["id"]: [found for found in exchange["differences"] if not AGE.search(found)] for exchange in answered
    }
    return {id: found for id, found in differences.items() if found}
