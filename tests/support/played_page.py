"""A page whose console sessions are played: every command is run, and must print what the page says it prints.

A block with ``oarlock serve``, ``dev`` or ``run`` stays running, on a free port, until the page starts a server again
or ends. Whatever else is in a block runs in bash, in the page's folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oarlock.cli.developing import PORT_BEHIND

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
START_S = 60.0
COMMAND_S = 60.0


@dataclass
class Step:
    """A command of a page, and what it prints."""

    command: str
    output: list[str]


def steps_of(page: str) -> Iterator[Step]:
    for block in BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            end = lines.index("EOF") + 1 if "<<EOF" in lines[0] else 1
            yield Step("\n".join(lines[:end]), lines[end:])


class PlayedPage:
    """Plays steps in `folder`, with `kubectl` as the command of that name."""

    def __init__(self, folder: Path, kubectl: str) -> None:
        self.folder = folder
        programs = folder / ".bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(kubectl)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("KUBE")},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder / ".home"),
            "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src"),
            "PYTHONUNBUFFERED": "1",
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def play(self, step: Step) -> None:
        """Run a step. Raises AssertionError when it prints something else."""
        words = step.command.split()
        if words[0] == "oarlock" and words[1] in ("serve", "dev", "run"):
            self._start(words, step.output)
        elif words[0] == "export":
            self._environment.update([words[1].split("=", 1)])
        elif words[0] != "pytest":
            printed = self._printed(step.command)
            assert printed == [_plain(line) for line in step.output], f"{step.command}\n" + "\n".join(printed)

    def _printed(self, command: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        return [_plain(line) for line in done.stdout.splitlines()]

    def _start(self, words: list[str], output: list[str]) -> None:
        name = words[1]
        if name == "serve":
            self.stop()
            words = [*words, "--secure-port=0", "--bind-address=127.0.0.1"]
        elif name == "dev":
            words = [*words, f"--secure-port={_free_port()}"]
        log = self.folder / f"{name}.log"
        with log.open("wb") as opened:
            command = [sys.executable, "-m", *words]
            self._running[name] = subprocess.Popen(
                command, cwd=self.folder, env=self._environment, stdout=opened, stderr=opened
            )
        deadline = time.monotonic() + START_S
        while not _says(log.read_text(), output):
            assert self._running[name].poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """End what runs, the last first, as Ctrl-C would."""
        while self._running:
            _, process = self._running.popitem()
            process.send_signal(signal.SIGINT)
            try:
                process.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise


def _free_port() -> int:
    """A port that is free now, and so is the one for a server behind."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + PORT_BEHIND))
                return port


def _says(printed: str, output: list[str]) -> bool:
    """Whether a log has these lines, at whatever port."""
    lines = {_without_port(line) for line in printed.splitlines()}
    return all(_without_port(line) in lines for line in output) and (bool(output) or bool(lines))


def _without_port(line: str) -> str:
    return _plain(re.sub(r":\d+,", ":6443,", line))


def _plain(line: str) -> str:
    return " ".join(line.split())


@contextmanager
def played(folder: Path, kubectl: str) -> Iterator[PlayedPage]:
    page = PlayedPage(folder, kubectl)
    try:
        yield page
    finally:
        page.stop()
