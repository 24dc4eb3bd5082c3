"""The pizza example does what its README says, with kubectl, and its own tests pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kubectl import NoKubectl, on_the_path
from played_page import played, steps_of

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "pizza"


def copied(folder: Path) -> None:
    shutil.copytree(EXAMPLE, folder / "pizza", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.slow
def test_its_readme_can_be_played(tmp_path: Path) -> None:
    try:
        kubectl = on_the_path()
    except NoKubectl as reason:
        pytest.skip(str(reason))
    copied(tmp_path)
    steps = list(steps_of((EXAMPLE / "README.md").read_text()))
    assert len(steps) >= 6
    with played(tmp_path, kubectl) as page:
        for step in steps:
            page.play(step)


@pytest.mark.slow
def test_its_own_tests_pass(tmp_path: Path) -> None:
    copied(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, "pizza"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
