"""Replays the recorded exchanges of the Go sample server against wardle. By hand:

    python tests/support/recorded_exchanges.py [--show ID]

The recording compacts its store and restarts the server on the way. The replay tool runs a shell command for that,
which only says so through a named pipe; the process that started the server does it, as only a parent can tell
that its child has really gone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
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


def replay(folder: Path, *options: str) -> Replayed:
    """Start wardle on an empty SQLite store in `folder`, replay everything, stop it."""
    with ServerProcess(folder, "wardle") as server:
        compact_at, compacted = folder / "compact-at", folder / "compacted"
        os.mkfifo(compact_at)
        os.mkfifo(compacted)

        def compact() -> None:
            revision = compact_at.read_text().strip()
            if not revision:
                return
            server.stop()
            server.compact(revision)
            server.start()
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
        replayed = replay(Path(folder), *sys.argv[1:])
    print(replayed.printed, end="")


if __name__ == "__main__":
    main()
