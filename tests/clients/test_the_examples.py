"""Examples do what their READMEs say, with kubectl."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kubectl import NoKubectl, on_the_path
from played_page import played, steps_of

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.slow


def copied(example: str, folder: Path) -> Path:
    shutil.copytree(EXAMPLES / example, folder / example, ignore=shutil.ignore_patterns("__pycache__"))
    return folder / example


@pytest.mark.parametrize(
    ("example", "steps"), [("wardle", 7), ("hello", 9), ("pizza", 6), ("databases", 15), ("two-servers", 5)]
)
def test_a_readme_can_be_played(example: str, steps: int, tmp_path: Path) -> None:
    try:
        kubectl = on_the_path()
    except NoKubectl as reason:
        pytest.skip(str(reason))
    folder = copied(example, tmp_path)
    found = list(steps_of((folder / "README.md").read_text()))
    assert len(found) >= steps
    with played(folder, kubectl) as page:
        for step in found:
            page.play(step)
