"""Shells complete commands, flags, their values, files, and the resources of a module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oarlock.cli.commands import COMMANDS
from oarlock.cli.completion import FILES, SHELLS, candidates

Oarlock = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ser"], ["serve"]),
        (["storage", "comp"], ["compact"]),
        (["--v"], ["--version"]),
        (["serve", ""], [FILES]),
        (["serve", "--secure-p"], ["--secure-port="]),
        (["serve", "things.py", "--rel"], ["--reload"]),
        (["crd", "things.py", "--output", ""], ["json", "yaml"]),
        (["crd", "things.py", "--output=j"], ["--output=json"]),
        (["crd", "things.py", "--output", "=", "j"], ["json"]),
        (["crd", "things.py", "--output", "="], ["json", "yaml"]),
        (["serve", "--kubeconfig", ""], [FILES]),
        (["serve", "--reload="], ["--reload=false", "--reload=true"]),
        (["crd", "things.py", "th"], ["things.test.example.com"]),
        (["crd", "missing.py", ""], []),
        (["completion", ""], ["bash", "fish", "words", "zsh"]),
        (["nope", ""], []),
    ],
)
def test_what_may_follow(folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], found: list[str]) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("things", None)
    assert candidates(COMMANDS, words) == found


def test_kinds_of_the_project_may_follow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyproject.toml").write_text('[project]\nname = "shop"\n[tool.oarlock]\n')
    (folder / "src" / "shop").mkdir(parents=True)
    (folder / "things.py").rename(folder / "src" / "shop" / "server.py")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        assert candidates(COMMANDS, ["add", "version", ""]) == ["Thing"]
        assert candidates(COMMANDS, ["add", "controller", "Th"]) == ["Thing"]
    finally:
        sys.modules.pop("server", None)


def test_every_command_is_completed() -> None:
    assert {inner.name for inner in COMMANDS.commands} <= set(candidates(COMMANDS, [""]))


def test_words_are_asked_about_by_the_environment(oarlock: Oarlock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OARLOCK_WORDS", "storage\nchec\n.")
    done = oarlock("completion", "words")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "check")


ASK = {
    "bash": 'eval "$(oarlock completion bash)"; COMP_WORDS=(oarlock storage comp); COMP_CWORD=2; _oarlock; '
    'echo "${COMPREPLY[@]}"',
    "fish": "oarlock completion fish | source; complete -C 'oarlock storage comp'",
    "zsh": 'autoload -U compinit; compinit -D; eval "$(oarlock completion zsh)"; echo ${_comps[oarlock]}',
}
ANSWERS = {"bash": "compact", "fish": "compact", "zsh": "_oarlock"}


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_takes_its_script(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} isn't installed")
    program = tmp_path / "oarlock"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m oarlock "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run([shell, "-c", ASK[shell]], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == ANSWERS[shell], done.stderr


@pytest.mark.slow
def test_help_that_nobody_reads_to_its_end_ends_quietly() -> None:
    command = f"{sys.executable} -m oarlock serve --help | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("Usage: oarlock serve [flags] [MODULE:ATTRIBUTE|FILE.py]\n", "")
