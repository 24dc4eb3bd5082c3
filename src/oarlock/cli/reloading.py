"""``oarlock serve --reload``: the server as a child process, started again when a source file changes. For development.

A child that ends by itself, because of a mistake in the file that was just saved, is started again after the next
change. Must not know: what is served. See also: `commands`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["serve_with_reload", "source_files"]

CHECK_INTERVAL_S = 0.5
"""The interval of checks for changed files, in seconds."""

MAX_FILES = 20_000
"""With more files than this, none is checked: the directory isn't one project's."""

SHUTDOWN_S = 10.0
"""How long a child may take to shut down before it is killed, in seconds; acknowledged writes are safe either way."""


def serve_with_reload(arguments: Sequence[str], folder: Path) -> int:
    """Run ``oarlock`` with `arguments`, again after each change below `folder`, until told to stop: the exit code."""
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: signals.append(number))
    while True:
        before = source_files(folder)
        child = subprocess.Popen([sys.executable, "-m", "oarlock", *arguments])
        changed = _changed_file(folder, before, signals)
        _stop(child)
        if changed is None:
            return 0
        print(f"oarlock: {changed} has changed: starting again", file=sys.stderr, flush=True)


def _changed_file(folder: Path, before: dict[Path, tuple[int, int]], signals: list[int]) -> Path | None:
    """Wait until a file is changed, added or removed. None when told to stop."""
    while not signals:
        time.sleep(CHECK_INTERVAL_S)
        now = source_files(folder)
        if now != before:
            return min(path for path, _ in now.items() ^ before.items())
    return None


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    try:
        child.wait(SHUTDOWN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def source_files(folder: Path) -> dict[Path, tuple[int, int]]:
    """Every Python file below `folder`, with its time and size; hidden folders and environments are left out."""
    found: dict[Path, tuple[int, int]] = {}
    for path in _python_files(folder):
        try:
            status = path.stat()
        except OSError:
            continue  # removed meanwhile
        found[path] = (status.st_mtime_ns, status.st_size)
        if len(found) >= MAX_FILES:
            break
    return found


def _python_files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in ("__pycache__", "node_modules")
        ]
        yield from (Path(parent, name) for name in files if name.endswith(".py"))
