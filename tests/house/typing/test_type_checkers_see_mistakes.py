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
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    return done.stdout + done.stderr


def of_bad(found: list[tuple[str, int]]) -> set[int]:
    """The lines of ``bad.py``, which alone has mistakes."""
    assert {name for name, _ in found} == {BAD.name}, found
    return {line for _, line in found}


def test_mypy_reports_every_mistake_and_nothing_else() -> None:
    pytest.importorskip("mypy")
    examples = [str(ROOT / "examples" / name) for name in ("wardle", "hello/src")]
    text = run(sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(BAD), *examples)
    found = [(Path(file).name, int(line)) for file, line in re.findall(r"^(\S+):(\d+): error:", text, re.MULTILINE)]
    assert of_bad(found) == expected(), text


def test_pyright_reports_every_mistake_and_nothing_else() -> None:
    found = shutil.which("pyright", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip("pyright isn't installed")
    examples = [path for path in sorted((ROOT / "examples").iterdir()) if path.is_dir()]
    folders = [str(path / "src" if (path / "src").is_dir() else path) for path in examples]
    text = run(found, "--outputjson", "--pythonpath", sys.executable, str(BAD), *folders)
    try:
        report = json.loads(text[text.index("{") :])
    except ValueError:
        pytest.skip(f"pyright doesn't run here: {text[:200]}")
    errors = [one for one in report["generalDiagnostics"] if one["severity"] == "error"]
    lines = [(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in errors]
    assert of_bad(lines) == expected(), errors
