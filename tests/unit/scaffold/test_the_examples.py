"""Examples are what their commands make, but for the files that they list; and their own tests pass."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_diffs", ROOT / "tools" / "example_diffs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


DIFFS = tool()
EXAMPLES: list[Path] = DIFFS.scaffolds()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_is_what_its_commands_make_plus_a_difference(example: Path, tmp_path: Path) -> None:
    made = DIFFS.scaffolded(DIFFS.commands_of(example), tmp_path)
    assert DIFFS.mistakes(example, made) == []


@pytest.mark.slow
def test_their_own_tests_pass(tmp_path: Path) -> None:
    """All of them in one process, each with the sources of its project; and wardle's, which has no project."""
    sources = [str(ROOT / "src"), *(str(example / "src") for example in EXAMPLES), str(ROOT)]
    tests = [str(example / "tests") for example in (*EXAMPLES, ROOT / "examples" / "wardle")]
    settings = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "--import-mode=importlib", "-W", "error"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *settings, "-c", os.devnull, "--rootdir", str(ROOT), *tests],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sources)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
