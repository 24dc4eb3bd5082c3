"""The command line as a user has it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SERVER = """\
from oarlock import APIServer, Model, Resource


class ThingSpec(Model):
    \"\"\"What is wanted.\"\"\"

    size: int = 1


class Thing(Resource, group="test.example.com", version="v1"):
    \"\"\"A thing.\"\"\"

    spec: ThingSpec = ThingSpec()


server = APIServer(serve=[Thing], name="things")
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "subprocess.Popen[str]"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "COLUMNS": "120"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty working directory with a server in ``things.py``."""
    (tmp_path / "things.py").write_text(SERVER)
    return tmp_path


@pytest.fixture
def oarlock(folder: Path) -> Run:
    """Run ``oarlock …`` to its end."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "oarlock", *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
        )

    return run


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start ``oarlock serve …``; what still runs at the end of the test is stopped."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, program: tuple[str, ...] = ("-m", "oarlock", "serve")) -> subprocess.Popen[str]:
        command = [sys.executable, *program, *arguments]
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
