"""The version is the one that importlib.metadata finds, read without importing it."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from oarlock.server.about import own_version


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def write(folder: Path, name: str, head: str) -> None:
    (folder / name).mkdir()
    (folder / name / "METADATA").write_text(f"Metadata-Version: 2.1\n{head}\n\nVersion: 0.0.1\n")


def test_it_is_what_importlib_finds() -> None:
    assert own_version() == metadata.version("oarlock")


def test_the_first_folder_of_the_path_decides(folder: Path) -> None:
    write(folder, "oarlock-7.8.9.dist-info", "Name: oarlock\nVersion: 7.8.9")
    assert own_version() == "7.8.9" == metadata.version("oarlock")


def test_packages_whose_names_begin_alike_are_others(folder: Path) -> None:
    before = own_version()
    write(folder, "oarlock_extra-7.8.9.dist-info", "Name: oarlock-extra\nVersion: 7.8.9")
    assert own_version() == before


def test_the_command_line_does_not_load_importlib_metadata() -> None:
    program = "import sys, oarlock.cli.commands\nprint('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
