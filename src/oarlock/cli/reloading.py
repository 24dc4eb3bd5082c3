"""Runs ``oarlock`` as a child process, which is started again when a Python file changes.

A child is forked by a process that has loaded what a server needs, and nothing of its user's: that takes a fraction of
the time of a new interpreter. See also: `serving_commands`, `developing`.
"""

from __future__ import annotations

import contextlib
import gc
import io
import multiprocessing
import os
import runpy
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from oarlock.net.files import FileSignature, file_signature

LOADED = ("oarlock.cli.serving_commands",)
"""What the process has loaded that children are forked by."""

LOADED_FOR = {b"ControlPlane": "oarlock.cli.loaded_control_plane"}
"""What it has loaded as well where a source has this word."""

CHECK_INTERVAL_S = 0.1
"""The interval of checks for changed files, in seconds; longer where a check takes more than a tenth of it."""

MAX_FILES = 20_000
"""With more files than this, none is checked: the directory isn't one project's."""

SHUTDOWN_S = 10.0
"""How long a child may take to shut down before it is killed, in seconds; acknowledged writes are safe either way."""


def serve_with_reload(arguments: Sequence[str], folder: Path) -> int:
    """Run ``oarlock`` with `arguments`, again after each change below `folder`, until told to stop: the exit code."""
    signals = stop_signals()
    load_once(source_files(folder))
    while True:
        before = source_files(folder)
        child = start_child(arguments)
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
    check_s = 0.0
    while not signals:
        time.sleep(max(CHECK_INTERVAL_S, 10 * check_s))
        begun = time.monotonic()
        now = source_files(folder)
        check_s = time.monotonic() - begun
        if now != before:
            return min(path for path, _ in now.items() ^ before.items())
    return None


def load_once(files: Iterable[Path], *, control_plane: bool = False) -> None:
    """Choose what is loaded before the first child, once for all of them, by what sources seem to need."""
    needed = {*LOADED_FOR.values()} if control_plane else set()
    for file in files:
        with contextlib.suppress(OSError):
            content = file.read_bytes()
            needed |= {module for word, module in LOADED_FOR.items() if word in content}
    multiprocessing.get_context("forkserver").set_forkserver_preload([*LOADED, *sorted(needed)])


def start_child(words: Sequence[str], output: Connection | None = None) -> BaseProcess:
    """Run ``oarlock`` with these words in another process. With `output`, what it prints goes there."""
    context = multiprocessing.get_context("forkserver")
    child = context.Process(target=_run, args=(tuple(words), output))
    child.start()
    return child


def _run(words: tuple[str, ...], output: Connection | None) -> None:
    gc.freeze()  # what was loaded before lives as long as the process
    if output is not None:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        output.close()
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(line_buffering=True)
    sys.argv = ["oarlock", *words]
    runpy.run_module("oarlock", run_name="__main__", alter_sys=True)


def stop_child(child: BaseProcess) -> None:
    """End a child in order, and a slow one at once."""
    child.terminate()
    child.join(SHUTDOWN_S)
    if child.is_alive():
        child.kill()
        child.join()


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
