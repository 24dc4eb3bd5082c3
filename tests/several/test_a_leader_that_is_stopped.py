"""Real processes on one store: a leader that was stopped for longer than its lease doesn't go on where it was."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import environment

from .conftest import until

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("OARLOCK_ROUNDS", "2"))


def steps(file: Path) -> list[float]:
    """The moments at which a process did what only the leader may do, on the clock that all processes share."""
    return [float(line) for line in file.read_text().split("\n")[1:-1]]


def test_no_two_processes_lead_at_the_same_time(tmp_path: Path) -> None:
    script = str(Path(__file__).with_name("leader.py"))
    files = [tmp_path / f"{number}.txt" for number in range(3)]
    running = []
    for file in files:
        with open(file, "wb") as out:
            command = [sys.executable, script, f"sqlite:///{tmp_path}/store.db"]
            running.append(subprocess.Popen(command, stdout=out, env=environment()))
    try:
        until(lambda: all(file.read_text() for file in files), "all have joined")
        for _ in range(ROUNDS):
            until(lambda: any(map(steps, files)), "somebody leads")
            leader = max(range(3), key=lambda number: max(steps(files[number]), default=0.0))
            before = [len(steps(file)) for file in files]
            os.kill(running[leader].pid, signal.SIGSTOP)
            others = [number for number in range(3) if number != leader]
            until(
                lambda others=others, before=before: any(len(steps(files[n])) > before[n] + 5 for n in others),
                "another follows",
            )
            os.kill(running[leader].pid, signal.SIGCONT)
            now = max(range(3), key=lambda number: max(steps(files[number]), default=0.0))
            later = max(steps(files[now])) + 0.5
            until(lambda file=files[now], later=later: max(steps(file)) > later, "it leads on")
    finally:
        for process in running:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
    every = sorted((at, number) for number, file in enumerate(files) for at in steps(file))
    changes = [(one, other) for one, other in itertools.pairwise(every) if one[1] != other[1]]
    assert ROUNDS <= len(changes) <= ROUNDS + 1
    for (stopped_at, _), (begun_at, _) in changes:
        assert begun_at - stopped_at > 0.5, "between two leaders is what the deadline leaves of the lease"
