"""What the docs tell a new user to type works, line by line.

Commands of ours run in this process; make, curl and kubectl, and the server, are real processes.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from oarlock.cli import main

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENDS = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^\$ ((?:[^\n]*<<EOF\n(?:[^$\n].*\n)*?EOF|.*))\n((?:[^$\n].*\n)*)", re.MULTILINE)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("make") is None, reason="needs make")]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A new user's shell: an empty folder, and an active environment in which oarlock is installed."""
    programs = tmp_path / "env" / "bin"
    programs.mkdir(parents=True)
    for name, words in (("oarlock", "-m oarlock"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (programs / name).chmod(0o755)
    for project in ("demo", "shop"):
        installed = programs.parent / f".{project}-installed"
        installed.touch()
        os.utime(installed, (2**32, 2**32))  # newer than whatever make compares it with: nothing is installed
    folder = tmp_path / "empty"
    folder.mkdir()
    with ExitStack() as stack:
        yield Shell(folder, programs, stack)


class Shell:
    """Runs lines one after the other, with what `cd` and `export` do."""

    def __init__(self, folder: Path, programs: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._port = ""
        kept = {name: os.environ[name] for name in ("LANG", "PYTHONPATH") if name in os.environ}
        self._environment = {
            **kept,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder.parent),
            "VIRTUAL_ENV": str(programs.parent),
            "ARGS": "--secure-port=0",
        }

    def write(self, page: str) -> None:
        """Write the files that a page shows. What it adds to a file later is added at once."""
        text = (ROOT / "docs" / page).read_text()
        for name, program in FILES.findall(text):
            file = self._folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(program + "".join(ENDS.findall(text)) * (file.name == "server.py"))

    def refused(self, line: str) -> str:
        """What a line prints that has to fail."""
        done = subprocess.run(
            ["bash", "-c", line], cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, f"{line}\n{done.stdout}{done.stderr}"
        return done.stderr

    def type(self, line: str) -> str:
        """What a line prints. It has to succeed."""
        if line.startswith("cd "):
            self._folder /= line.removeprefix("cd ")
            return ""
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self._environment[name] = value
            return ""
        if line.endswith(" &"):
            return self._stack.enter_context(self._in_background(line.removesuffix(" &")))
        if line.startswith("oarlock "):
            return self._in_this_process(shlex.split(line)[1:])
        line = line.replace(":6443", f":{self._port}")
        done = subprocess.run(
            ["bash", "-c", line], cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _in_this_process(self, words: list[str]) -> str:
        """What a command of ours prints. What it imports of the project and sets is undone."""
        before = set(sys.modules)
        importlib.invalidate_caches()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
            patch.chdir(self._folder)
            patch.setattr(sys, "path", list(sys.path))
            with pytest.raises(SystemExit) as left:
                main(words)
        for name in set(sys.modules) - before:
            if str(self._folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        assert left.value.code == 0, f"oarlock {shlex.join(words)}\n{said.getvalue()}"
        return said.getvalue()

    @contextmanager
    def _in_background(self, line: str) -> Iterator[str]:
        """Serve until the end, on a port of its own; what it prints until it is ready."""
        log = self._folder / "serve.log"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                cwd=self._folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        try:
            assert process.stdout is not None
            said = []
            for printed in process.stdout:
                said.append(printed)
                if printed.startswith("kubectl "):
                    break
            else:
                raise AssertionError(log.read_text())
            found = re.search(r"https://127\.0\.0\.1:(\d+)", log.read_text())
            assert found is not None
            self._port = found[1]
            yield "".join(said)
        finally:
            with process, contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


@pytest.mark.skipif(shutil.which("kubectl") is None or shutil.which("curl") is None, reason="needs kubectl and curl")
@pytest.mark.parametrize("page", ["walk.md", "from-apiserver-boot.md", "from-kubebuilder.md"])
def test_a_walk_can_be_typed(shell: Shell, page: str) -> None:
    said, line = "", ""
    for text in "".join(BLOCK.findall((ROOT / "docs" / page).read_text())).splitlines():
        if text.startswith("$ "):
            line = text.removeprefix("$ ")
            said = shell.type(line)
        else:
            assert text.strip() in said, f"{line}\n{said}"
    assert line


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_the_first_page_can_be_typed(shell: Shell) -> None:
    """Its files, its server and its kubectl lines: what isn't typed installs, or follows changes without an end."""
    shell.write("getting-started.md")
    _, served, used, old = BLOCK.findall((ROOT / "docs" / "getting-started.md").read_text())
    for line in re.findall(r"^\$ (.*)$", served, re.MULTILINE):
        shell.type(f"{line} &" if line.startswith("oarlock serve") else line)
    for line, printed in COMMANDS.findall(used + old):
        if line.endswith("--watch"):
            continue
        said = shell.refused(line) if "is invalid" in printed else shell.type(line)
        expected = [text for text in printed.splitlines() if not text.startswith("Warning: ")]
        assert [text for text in expected if text.strip() not in said] == [], f"{line}\n{said}"
