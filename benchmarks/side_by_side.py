"""One table of what a server costs, beside what was measured of a Go server and its store, and beside our goals.

    python benchmarks/side_by_side.py [ROW …] [--before DIR] [--record]

Without rows, all of them, in some minutes. CPU is that of the server's process alone (``/proc/PID/stat``), the median
of some runs; the load generator's doesn't count. `--before` measures another checkout too, in turns with this one. The
figures of the Go server and the goals are scaled to this machine in this minute by the calibration. `--record` writes
the table and the plot into docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from support.calibration import Calibration
from support.load import fill
from support.performance_page import Peer, Result, record, shown
from support.rows import ROWS, Needs, Row, created
from support.wardle import ROOT, Server, wardle


@dataclass
class Checkout:
    """The servers of one checkout, each started when a row first needs it, with the objects that it has so far."""

    root: Path
    stack: ExitStack
    running: dict[str, Server] = field(default_factory=dict)
    objects: dict[str, int] = field(default_factory=dict)

    def having(self, needs: Needs) -> Server:
        """The server that a row needs, with at least so many objects."""
        if needs.server not in self.running:
            self.running[needs.server] = self.stack.enter_context(wardle(checkout=self.root))
        server, there = self.running[needs.server], self.objects.get(needs.server, 0)
        if there < needs.objects:
            fill(server, created, needs.objects - there, there)
            self.objects[needs.server] = needs.objects
        return server


def figures_of(row: Row, checkouts: Sequence[Checkout], calibration: Calibration) -> tuple[list[float], float]:
    """The median of each checkout, and what the calibration was meanwhile where that counts."""
    with ThreadPoolExecutor() as pool:
        servers = list(pool.map(lambda one: one.having(row.needs), checkouts))
        if row.unit == "MiB":
            return list(pool.map(row.measure, servers)), 0.0
    found: list[list[float]] = [[] for _ in servers]
    units = [calibration.unit_us()]
    for turn in range(row.runs):
        order = range(len(servers)) if turn % 2 else reversed(range(len(servers)))
        for at in order:
            found[at].append(row.measure(servers[at]))
        units.append(calibration.unit_us())
    return [statistics.median(each) for each in found], statistics.median(units)


def measured(names: Sequence[str], roots: Sequence[Path], calibration: Calibration) -> list[Result]:
    """Measure the rows, of the first checkout and perhaps of one before it, and print each when it is there."""
    peer, results = Peer.read(), []
    with ExitStack() as stack:
        checkouts = [Checkout(root, stack) for root in roots]
        for name in names:
            figures, unit_us = figures_of(ROWS[name], checkouts, calibration)
            before = figures[1] if len(figures) > 1 else None
            results.append(peer.result(name, ROWS[name], (figures[0], before), unit_us))
            print(shown(results[-1]), flush=True)
    return results


def described(root: Path) -> str:
    """The commit of a checkout."""
    asked = subprocess.run(["git", "-C", root, "show", "-s", "--format=%h of %cs"], capture_output=True, text=True)
    return asked.stdout.strip() or root.name


def given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout, measured in turns with this one")
    parser.add_argument("--record", action="store_true", help="write docs/performance.md")
    words = parser.parse_args()
    unknown = [name for name in words.rows if name not in ROWS]
    if unknown:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    if words.before and not (words.before / "src" / "oarlock").is_dir():
        parser.error(f"{words.before} is no checkout of oarlock")
    if words.record and words.rows:
        parser.error("--record writes the whole table: leave the rows out")
    return words


def main() -> None:
    words = given()
    roots = [ROOT, words.before.resolve()] if words.before else [ROOT]
    began = time.monotonic()
    with Calibration() as calibration:
        first = calibration.unit_us()
        results = measured(words.rows or list(ROWS), roots, calibration)
        machine = (
            f"{time.strftime('%Y-%m-%d')} in {(time.monotonic() - began) / 60:.0f} minutes, Python "
            f"{platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, calibration "
            f"{first:.1f} µs at first, {calibration.unit_us():.1f} µs at last, {Peer.read().calibration_us:.1f} µs "
            "where the Go server was measured"
        )
    if words.before:
        machine += f"; before: {described(words.before)}"
    print(machine)
    if words.record:
        record(results, machine, ROOT / "docs")


if __name__ == "__main__":
    main()
