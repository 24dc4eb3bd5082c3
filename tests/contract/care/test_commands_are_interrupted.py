"""Commands on whole stores are ended by Ctrl-C or kill -9 in their midst, and run again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from thoroughness import rounds
from whole_stores import contents, fill

import oarlock
from oarlock.storage.care.operations import opened

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(oarlock.__path__[0]).parent)}
KILLS = int(os.environ.get("OARLOCK_CARE_KILLS", rounds(2, 1)))
"""How often each command is killed."""
KEYS = 3_000
END_S = 60.0


def begin(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "oarlock", "storage", *words]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(*words: str) -> str:
    process = begin(*words)
    out, errors = process.communicate(timeout=END_S)
    assert process.returncode == 0, errors
    return out


def interrupt(process: subprocess.Popen[str], how: signal.Signals, reached: Callable[[], bool], after_s: float) -> str:
    """Send a signal some time after something was reached; returns what was written to stderr."""
    give_up = time.monotonic() + END_S
    while not reached() and process.poll() is None and time.monotonic() < give_up:
        time.sleep(0.001)
    time.sleep(after_s)
    process.send_signal(how)
    return process.communicate(timeout=END_S)[1]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "store.db"
    asyncio.run(fill(f"sqlite:///{path}", KEYS))
    return path


def listed(path: Path) -> list[tuple[str, bytes]]:
    return [(kv.key, kv.value) for kv in asyncio.run(contents(f"sqlite:///{path}"))]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_a_backup_is_whole_or_not_there(tmp_path: Path, source: Path, how: signal.Signals) -> None:
    url, file, dice = f"sqlite:///{source}", tmp_path / "a.backup", random.Random(3)
    partial = tmp_path / "a.backup.partial"
    whole = finished("backup", "--quiet", url, str(tmp_path / "whole.backup"))
    assert f"{KEYS * 4 // 5} keys" in whole
    for _ in range(KILLS):
        process = begin("backup", url, str(file))
        errors = interrupt(process, how, partial.exists, dice.random() * 0.1)
        if process.returncode == 0:
            assert listed_in(tmp_path, file) == listed(source)
            file.unlink()
            continue
        if file.exists():  # the signal came after the last step
            assert listed_in(tmp_path, file) == listed(source)
            file.unlink()
            continue
        assert process.returncode == (130 if how is signal.SIGINT else -9)
        if how is signal.SIGINT:
            last = errors.splitlines()[-1]
            assert last == f"oarlock: interrupted: nothing was written; run `oarlock storage backup {url} {file}` again"
            assert not partial.exists()
    finished("backup", "--quiet", url, str(file))
    assert listed_in(tmp_path, file) == listed(source)


def listed_in(folder: Path, file: Path) -> list[tuple[str, bytes]]:
    target = folder / f"trial{time.monotonic_ns()}.db"
    finished("restore", "--quiet", str(file), f"sqlite:///{target}")
    return listed(target)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
@pytest.mark.parametrize("command", ["restore", "copy"])
def test_a_restore_and_a_copy_go_on_where_they_were(
    tmp_path: Path, source: Path, command: str, how: signal.Signals
) -> None:
    dice, target, file = random.Random(4), tmp_path / "target.db", tmp_path / "a.backup"
    url = f"sqlite:///{target}"
    finished("backup", "--quiet", f"sqlite:///{source}", str(file))
    words = (command, str(file) if command == "restore" else f"sqlite:///{source}", url)

    def is_being_filled() -> bool:
        return target.with_name("target.db-wal").exists()

    for _ in range(KILLS):
        process = begin(*words)
        errors = interrupt(process, how, is_being_filled, dice.random() * 0.4)
        assert process.returncode in (0, 1, 130, -2, -9)  # 1: it had been completed before; -2: it was about to end
        if process.returncode == 130:
            again = f"run `oarlock storage {' '.join(words)}` again to continue"
            assert errors.splitlines()[-1] == f"oarlock: interrupted: {again}"
        if process.returncode in (0, 1):
            break
    else:
        last = begin(*words)
        errors = last.communicate(timeout=END_S)[1]
        assert last.returncode == 0 or "isn't empty" in errors, errors  # it may have been killed after its last step
    assert listed(target) == listed(source)
    assert sound(url) == []


def sound(url: str) -> list[str]:
    async def check() -> list[str]:
        async with opened(url) as backend:
            return await backend.check()

    return asyncio.run(check())


def test_progress_is_shown_line_by_line_and_not_at_all_when_quiet(tmp_path: Path, source: Path) -> None:
    for quiet in (True, False):
        words = ["--quiet"] if quiet else []
        process = begin("backup", *words, f"sqlite:///{source}", str(tmp_path / "a.backup"))
        out, errors = process.communicate(timeout=END_S)
        assert process.returncode == 0
        assert len(out.splitlines()) == 1
        assert "\r" not in errors
        if quiet:
            assert errors == ""
