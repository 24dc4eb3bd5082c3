"""Without hypothesis everything works that doesn't need it, and what does says how to get it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WITHOUT = """\
import sys
sys.modules["hypothesis"] = None  # importing it fails as if it weren't installed
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", WITHOUT + program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_rest_of_the_kit_needs_no_hypothesis() -> None:
    done = run("from oarlock.testing import InMemory, InMemoryClient, ServerThread, VirtualClock")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "program",
    [
        "from oarlock.testing import assert_round_trips",
        "from oarlock.testing.contracts.histories import HistoryContract",
    ],
)
def test_who_needs_it_is_told_in_one_line(program: str) -> None:
    done = run(program)
    [*_, last] = done.stderr.splitlines()
    assert done.returncode == 1
    assert last.startswith("ModuleNotFoundError: ")
    assert last.endswith("needs hypothesis, which isn't installed: pip install 'oarlock[testing]'")
