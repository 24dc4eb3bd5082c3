"""``oarlock serve --reload``: the server starts again when a file beside it changes, also after one with a mistake."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarlock.cli.reloading import source_files


@pytest.fixture
def reloading(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "oarlock", "serve", "things.py", "--reload", "--secure-port=0"]
    command += ["--storage=memory://", f"--cert-dir={folder}/pki"]
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, text=True, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"it ended without saying {text!r}")


@pytest.mark.slow
def test_the_server_starts_again_when_its_file_changes(reloading: subprocess.Popen[str], folder: Path):
    source = (folder / "things.py").read_text()
    line = _until(reloading, "serving at")
    assert line.startswith("things: serving at https://127.0.0.1:")
    assert "objects in memory" in line
    (folder / "things.py").write_text(source.replace('version="v1"', 'version="1"'))
    _until(reloading, "things: stopped")
    _until(reloading, "things.py has changed: restarting")
    _until(reloading, "oarlock: ")  # the mistake
    (folder / "things.py").write_text(source)
    _until(reloading, "serving at")
    reloading.send_signal(signal.SIGTERM)
    _until(reloading, "things: stopped")
    assert reloading.wait(20) == 0


def test_environments_and_hidden_folders_are_not_looked_at(tmp_path: Path):
    for name in ("a.py", "b.txt", "sub/c.py", ".hidden/d.py", "env/pyvenv.cfg", "env/e.py", "__pycache__/f.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    before = source_files(tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in before} == {"a.py", "sub/c.py"}
    (tmp_path / "a.py").unlink()
    assert source_files(tmp_path).keys() < before.keys()
