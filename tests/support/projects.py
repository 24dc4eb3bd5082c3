"""Projects that ``oarlock new`` and ``oarlock add`` make, without their processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from oarlock.scaffold.changes import Changes
from oarlock.scaffold.project import Project, new_project

__all__ = ["Addition", "changed", "made", "run", "run_ruff", "types"]

Addition = Callable[[Project, Changes], object]
ROOT = Path(__file__).resolve().parents[2]


def made(root: Path, name: str, home: str = "extension") -> Path:
    """A project without kinds."""
    _, changes = new_project(root, name, "demo.example.com", home, "0.1.0")
    changes.write()
    return root


def changed(root: Path, *additions: Addition) -> None:
    """Add to a project, one after the other, as several commands do. Nothing is formatted."""
    for addition in additions:
        changes = Changes(root)
        addition(Project.find(root), changes)
        changes.write()


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run this Python in a folder, to its end."""
    environment = {**os.environ, **variables}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def run_ruff(folder: Path, *words: str) -> str:
    """What ruff says, empty if nothing is wrong."""
    program = shutil.which("ruff", path=str(Path(sys.executable).parent)) or "ruff"
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def types(root: Path) -> str:
    """What mypy says of a project, empty if nothing is wrong.

    The settings of this repository are at least as strict as those of a project, and its cache has oarlock's types.
    """
    settings = ("--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache"))
    path = os.pathsep.join((str(root / "src"), str(ROOT / "src")))
    done = run(root, "-m", "mypy", *settings, "src", "tests", MYPYPATH=path)
    return "" if done.returncode == 0 else done.stdout + done.stderr
