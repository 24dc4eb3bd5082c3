"""Runs ``oarlock`` as a child process, which is started again when a Python file changes.

See also: `serving_commands`, `developing`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from oarlock.net.files import FileSignature, file_signature

CHECK_INTERVAL_S = 0.5
"""The interval of checks for changed files, in seconds."""

MAX_FILES = 20_000
"""With more files than this, none is checked: the directory isn't one project's."""

SHUTDOWN_S = 10.0
"""How long a child may take to shut down before it is killed, in seconds; acknowledged writes are safe either way."""


def serve_with_reload(arguments: Sequence[str], folder: Path) -> int:
    """Run ``oarlock`` with `arguments`, again after each change below `folder`, until told to stop: the exit code."""
    signals = stop_signals()
    while True:
        before = source_files(folder)
        child = subprocess.Popen([sys.executable, "-m", "oarlock", *arguments])
        changed = changed_file(folder, before, signals)
        stop_child(child)
        if changed is None:
            return 0
        print(f"oarlock: {changed} has changed: restarting", file=sys.stderr, flush=True)


def stop_signals() -> list[int]:
    """A list that gets the signals by which this process is told to stop."""
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: signals.append(number))
    return signals


def changed_file(folder: Path, before: dict[Path, FileSignature], signals: list[int]) -> Path | None:
    """Wait until a file is changed, added or removed. None when told to stop."""
    while not signals:
        time.sleep(CHECK_INTERVAL_S)
        now = source_files(folder)
        if now != before:
            return min(path for path, _ in now.items() ^ before.items())
    return None


def stop_child(child: subprocess.Popen[Any]) -> None:
    """End a child in order, and a slow one at once."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    try:
        child.wait(SHUTDOWN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def source_files(folder: Path) -> dict[Path, FileSignature]:
    """The first `MAX_FILES` Python files below `folder`; hidden folders and environments are left out."""
    found = ((path, file_signature(path)) for path in islice(_python_files(folder), MAX_FILES))
    return {path: signature for path, signature in found if signature is not None}  # others were removed meanwhile


def _python_files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in ("__pycache__", "node_modules")
        ]
        yield from (Path(parent, name) for name in files if name.endswith(".py"))
