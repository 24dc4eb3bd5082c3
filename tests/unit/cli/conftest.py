"""The command line inside the test's process, in a working directory of its own."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from oarlock.cli import main

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


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    returncode: object
    stdout: str
    stderr: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty working directory with a server in ``things.py``."""
    (tmp_path / "things.py").write_text(SERVER)
    return tmp_path


@pytest.fixture
def oarlock(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run ``oarlock …`` to its end; what it imports and sets is undone."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(logging.getLogger("oarlock"), "level", logging.WARNING)

    def run(*arguments: str) -> Done:
        capfd.readouterr()
        for name in ("things", "bad", "shop"):  # each command is a new process to its user
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = capfd.readouterr()
        return Done(left.value.code, said.out, said.err)

    return run
