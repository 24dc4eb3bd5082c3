"""Replays the recorded exchanges of the Go sample server against wardle. By hand:

    python tests/support/recorded_exchanges.py [--show ID]

The recording compacts its store and restarts the server on the way. The replay tool runs a shell command for that,
which only says so through a named pipe; the process that started the server does it, as only a parent can tell
that its child has really gone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from server_process import ROOT, ServerProcess

TOOL = ROOT.parent / "shared" / "tools" / "replay.py"
GOLDEN = ROOT.parent / "shared" / "golden" / "wardle.jsonl"
RECORDED_PORT = ":18444"
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Replayed:
    """How every exchange went, by id, and what the tool printed about those that went otherwise than recorded."""

    exchanges: dict[int, dict[str, object]]
    printed: str

    @property
    def failed(self) -> set[int]:
        return {number for number, exchange in self.exchanges.items() if not exchange["ok"]}


class MemoryServerProcess(ServerProcess):
    """wardle on a store in memory, in a process that outlives a restart of the server in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "wardle", "memory://")

    def restart_compacted(self, revision: str) -> None:
        (self.folder / "compact").write_text(revision)
        os.kill(self.pid, signal.SIGTERM)
        while (self.folder / "compact").exists():
            time.sleep(0.01)
        self._wait_until_ready()

    def _command(self) -> list[str]:
        program = Path(__file__).with_name("wardle_in_memory.py")
        command = super()._command()
        given = command[command.index("--secure-port") :]
        storage = given.index("--storage")
        return [sys.executable, str(program), str(self.folder), *given[:storage], *given[storage + 2 :]]


def replay(server: ServerProcess, *options: str) -> Replayed:
    """Start wardle on the empty store of `server`, replay everything, stop it."""
    folder = server.folder
    with server:
        compact_at, compacted = folder / "compact-at", folder / "compacted"
        os.mkfifo(compact_at)
        os.mkfifo(compacted)

        def compact() -> None:
            revision = compact_at.read_text().strip()
            if not revision:
                return
            server.restart_compacted(revision)
            compacted.write_text("")

        waiting = threading.Thread(target=compact)
        waiting.start()
        outcome = folder / "outcome.json"
        golden = folder / "golden.jsonl"
        # discovery says at which port it is served
        golden.write_text(GOLDEN.read_text().replace(RECORDED_PORT, f":{server.port}"))
        command = [
            *(sys.executable, str(TOOL), "--base", server.url, "--ca", str(server.ca), "--token", server.token),
            *("--golden", str(golden), "--json", str(outcome)),
            *("--compact", f"echo {{rv}} > '{compact_at}' && cat '{compacted}'", *options),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        finally:
            _let_go(waiting, compact_at)
        if not outcome.exists():
            raise AssertionError(f"the replay did not finish:\n{done.stdout}{done.stderr}\n{server.log}")
        exchanges = {int(one["id"]): one for one in json.loads(outcome.read_text())}
        return Replayed(exchanges, done.stdout)


def _let_go(waiting: threading.Thread, pipe: Path) -> None:
    """A replay that ended early never asked to compact: an empty line says that nobody will."""
    waiting.join(0)
    while waiting.is_alive():
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            pass
        waiting.join(0.1)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="oarlock-replay-") as folder:
        replayed = replay(ServerProcess(Path(folder), "wardle"), *sys.argv[1:])
    print(replayed.printed, end="")


if __name__ == "__main__":
    main()
