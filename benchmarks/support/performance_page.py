"""The table and the plot of docs/performance.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import NamedTuple

from support.rows import Row

BEGIN, END = "<!-- figures: written by make bench -->\n", "<!-- end of figures -->\n"


class Result(NamedTuple):
    """One row: our figure, that of another checkout before this one, that of the Go server with its store, our goal.

    The last two are scaled to this machine; either may be unknown.
    """

    name: str
    what: str
    unit: str
    ours: float
    before: float | None
    peer: float | None
    goal: float | None


@dataclass(frozen=True)
class Peer:
    """What was measured of the Go server and of its store, our goals, and how fast the machine was."""

    calibration_us: float
    rows: dict[str, dict[str, float]]

    @classmethod
    def read(cls) -> Peer:
        read = json.loads(Path(__file__).with_name("peer.json").read_text())
        return cls(read["calibration_us"], read["rows"])

    def result(self, name: str, row: Row, ours: tuple[float, float | None], unit_us: float) -> Result:
        """The row with our figure and perhaps that before it, where the calibration is `unit_us`."""
        scale = 1.0 if row.unit == "MiB" else unit_us / self.calibration_us
        there = self.rows[name]
        peer = (there["server"] + there["store"]) * scale if "server" in there else None
        goal = there["goal"] * scale if "goal" in there else None
        return Result(name, row.what, row.unit, *ours, peer, goal)


def figure(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def ratio(value: float, to: float | None, form: str) -> str:
    return "–" if to is None else format(value / to, form)


def shown(one: Result) -> str:
    """A line for a terminal."""
    parts = [f"{one.name:24} {figure(one.ours):>8} {one.unit:3}"]
    if one.before is not None:
        parts.append(f"before {figure(one.before):>8} (× {one.ours / one.before:.2f})")
    parts.append(f"goal here {figure(one.goal):>8} (× {ratio(one.ours, one.goal, '.2f')})")
    parts.append(f"Go + store here {figure(one.peer):>8} ({ratio(one.ours, one.peer, '.0%')})")
    return "  ".join(parts)


def table(results: Sequence[Result]) -> str:
    compared = any(one.before is not None for one in results)
    heads = ["work", "Go + store", "goal", *(["before"] if compared else []), "oarlock", "of Go + store", "of the goal"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for one in results:
        cells = [f"{one.what}, {one.unit}", figure(one.peer), figure(one.goal)]
        cells += [figure(one.before)] if compared else []
        cells += [figure(one.ours), ratio(one.ours, one.peer, ".0%"), ratio(one.ours, one.goal, ".2f")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


LEFT, WIDTH, STEP, MOST = 370, 360, 22, 1.1


def plot(results: Sequence[Result]) -> str:
    """For each row of which the Go server's figure is known, our share of it, that before, and the goal's."""
    rows = [one for one in results if one.peer is not None]
    height = STEP * len(rows) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 100} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{LEFT + WIDTH + 100}" height="{height}" fill="#fff"/>',
    ]
    for at, one in enumerate(rows):
        parts += _bar(one, at * STEP + 6)
    end = STEP * len(rows) + 4
    legend = "share of what the Go server and its store need; blue: oarlock, grey: before, red: goal"
    parts += [
        f'<line x1="{LEFT + WIDTH}" y1="0" x2="{LEFT + WIDTH}" y2="{end}" stroke="#999" stroke-dasharray="3"/>',
        f'<text x="{LEFT}" y="{end + 16}">{legend}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bar(one: Result, y: int) -> list[str]:
    def length(value: float | None) -> float:
        return min((value or 0) / (one.peer or 1), MOST) * WIDTH

    label = f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(one.what)}</text>'
    parts = [label, f'<rect x="{LEFT}" y="{y}" width="{length(one.ours):.1f}" height="10" fill="#4477aa"/>']
    if one.before is not None:
        parts.append(f'<rect x="{LEFT}" y="{y + 11}" width="{length(one.before):.1f}" height="4" fill="#bbbbbb"/>')
    if one.goal is not None:
        parts.append(f'<rect x="{LEFT + length(one.goal):.1f}" y="{y - 2}" width="2" height="19" fill="#cc3311"/>')
    after = LEFT + max(length(one.ours), length(one.before), length(one.goal)) + 6
    return [*parts, f'<text x="{after:.1f}" y="{y + 12}">{ratio(one.ours, one.peer, ".0%")}</text>']


def record(results: Sequence[Result], machine: str, docs: Path) -> None:
    """Write the plot, and replace what stands between the two marks of the page."""
    (docs / "performance.svg").write_text(plot(results))
    page = docs / "performance.md"
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\nMeasured {machine}.\n\n{table(results)}\n{END}{after}")
