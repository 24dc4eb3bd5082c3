"""Both type checkers report every deliberate mistake in ``bad.py``, and none in the examples."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BAD = Path(__file__).parent / "bad.py"


pytestmark = pytest.mark.slow


def expected() -> set[int]:
    return {number for number, line in enumerate(BAD.read_text().splitlines(), 1) if "# mistake: " in line}


def run(*command: str) -> str:
    environment = {**os.environ, "MYPYPATH": f"{ROOT / 'src'}:{ROOT / 'examples'}"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    return done.stdout + done.stderr


def mypy(*paths: Path) -> str:
    pytest.importorskip("mypy")
    return run(sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, paths))


def pyright(*paths: Path) -> list[tuple[int, str]]:
    """(line, message) of each error."""
    found = shutil.which("pyright", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip("pyright isn't installed")
    text = run(found, "--outputjson", "--pythonpath", sys.executable, *map(str, paths))
    try:
        report = json.loads(text[text.index("{") :])
    except ValueError:
        pytest.skip(f"pyright doesn't run here: {text[:200]}")
    return [
        (d["range"]["start"]["line"] + 1, f"{d['file']}: {d['message']}")
        for d in report["generalDiagnostics"]
        if d["severity"] == "error"
    ]


def test_mypy_reports_every_mistake_and_nothing_else() -> None:
    text = mypy(BAD)
    found = {int(line) for line in re.findall(r"bad\.py:(\d+): error:", text)}
    assert found == expected(), text


def test_pyright_reports_every_mistake_and_nothing_else() -> None:
    found = pyright(BAD)
    assert {line for line, _ in found} == expected(), found


@pytest.mark.parametrize("example", ["wardle", "hello", "machines"])
def test_the_examples_are_strictly_typed(example: str) -> None:
    assert mypy(ROOT / "examples" / example) == ""


def test_pyright_has_nothing_to_say_about_the_examples() -> None:
    assert pyright(ROOT / "examples") == []
