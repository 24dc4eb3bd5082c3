"""The commands ``oarlock serve``, also with ``--reload``, and ``oarlock config``.

With ``--reload`` the server is a child process, which is started again when a Python file changes.
See also: ``server.command``.
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

from oarlock.cli.loading import ServerArgument, load_server, source_folder
from oarlock.meta.dataclass import dataclass
from oarlock.net.files import FileSignature, file_signature
from oarlock.server.command import ExtensionOptions, serve_with, set_up_logging
from oarlock.server.options.commands import Command
from oarlock.server.options.file import as_file
from oarlock.server.options.option import Problem, option
from oarlock.server.options.types import BooleanType

__all__ = ["CONFIG", "SERVE", "serve_with_reload", "source_files"]

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
        print(f"oarlock: {changed} has changed: restarting", file=sys.stderr, flush=True)


def _changed_file(folder: Path, before: dict[Path, FileSignature | None], signals: list[int]) -> Path | None:
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


def source_files(folder: Path) -> dict[Path, FileSignature | None]:
    """The first `MAX_FILES` Python files below `folder`; hidden folders and environments are left out."""
    return {path: file_signature(path) for path in islice(_python_files(folder), MAX_FILES)}


def _python_files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in ("__pycache__", "node_modules")
        ]
        yield from (Path(parent, name) for name in files if name.endswith(".py"))


@dataclass(frozen=True, kw_only=True, repr=False)
class _Serve(ServerArgument, ExtensionOptions):
    title = ""

    reload: bool = option(
        False,
        BooleanType(),
        "Restart when a Python file in the server's folder changes. For development.",
        in_file=False,
    )

    def check(self) -> Iterator[Problem]:
        if self.reload and self.workers > 1:
            yield Problem("reload", "works with one process only: leave it out, or leave out `workers`")


def _serve(options: _Serve) -> int:
    """Serve an APIServer to Kubernetes clients.

    Prints the kubectl line to try when it is ready. SIGTERM and SIGINT (Ctrl-C) shut it down in order; a second one
    ends it at once.
    """
    set_up_logging(options.verbosity)
    if options.reload:
        words = [word for word in sys.argv[1:] if word.partition("=")[0] != "--reload"]
        return serve_with_reload(words, source_folder(options.server))
    return serve_with(load_server(options.server), options)


def _config(options: ExtensionOptions) -> None:
    """Print the effective configuration of a server, as a file for --config.

    Takes the flags of oarlock serve. Passwords are left out. No server is started and no store is opened.
    """
    print(as_file(options), end="")


SERVE = Command("serve", _Serve, _serve)
CONFIG = Command("config", ExtensionOptions, _config)
