"""What do several processes on one port cost? Server CPU per GET, LIST and CREATE with 1 and 2 workers, on SQLite.

16 requests in flight over HTTP/1.1 for each process, so that one has as much to do at a time. CPU is that of all
processes of the server, user and system. Runs alternate, and each figure is the median of its runs. Then the memory of
each process.

    python benchmarks/workers.py [seconds of a run] [runs]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from support.load import Load, fill, run
from support.processes import tree_cpu_s
from support.wardle import FLUNDERS, Server, flunder, wardle

OBJECTS = 512
OPERATIONS = ("GET", "LIST of 10", "CREATE")

Make = Callable[[int], tuple[str, str, bytes, str]]


@dataclass(frozen=True)
class WholeServer(Server):
    """A server with all its processes."""

    def cpu_s(self) -> float:
        return tree_cpu_s(self.pid)


def main(seconds: float, runs: int) -> None:
    with ExitStack() as running:
        servers: dict[int, Server] = {}
        for workers in (1, 2):
            started = running.enter_context(wardle(options=["--workers", str(workers)]))
            servers[workers] = WholeServer(started.pid, started.port, started.folder, started.ready_s)
            fill(started, lambda n: ("POST", FLUNDERS, flunder(f"old-{n}", n), "application/json"), OBJECTS)
        for what in OPERATIONS:
            figures: dict[int, list[float]] = {workers: [] for workers in servers}
            for number in range(runs):
                for workers, server in servers.items():
                    load = Load(seconds=seconds, most=20_000 * workers, in_flight=16 * workers)
                    figures[workers].append(run(server, operation(what, f"{workers}-{number}"), load).cpu_us)
            one, two = (statistics.median(figures[workers]) for workers in servers)
            print(f"{what}: {one:.0f} µs CPU in one process, {two:.0f} in two workers: {two / one:.2f} times as much")
        for workers, server in servers.items():
            print(f"{workers} workers: {memory(server)}")


def operation(what: str, run_name: str) -> Make:
    if what == "GET":
        return lambda n: ("GET", f"{FLUNDERS}/old-{n % OBJECTS}", b"", "")
    if what == "CREATE":
        return lambda n: ("POST", FLUNDERS, flunder(f"new-{run_name}-{n}", n), "application/json")
    return lambda n: ("GET", f"{FLUNDERS}?limit=10", b"", "")


def memory(server: Server) -> str:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    sizes = [
        f"{resident(pid, 'Rss'):.0f} MB ({resident(pid, 'Pss'):.0f} of its own)" for pid in (server.pid, *children)
    ]
    return "RSS " + ", ".join(sizes)


def resident(pid: int | str, what: str) -> float:
    """RSS, or PSS, which counts memory that processes share once, in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) / 1024


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 3.0, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
