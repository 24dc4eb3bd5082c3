"""The table and the plot of docs/performance.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

BEGIN, END = "<!-- figures: written by make bench -->\n", "<!-- end of figures -->\n"


class PeerRow(NamedTuple):
    """What was measured of the Go server and of its store, and our goal, in the unit of the row."""

    server: float
    store: float
    goal: float


class Result(NamedTuple):
    """One row: our figure, that of the Go server with its store, and our goal."""

    name: str
    what: str
    unit: str
    ours: float
    peer: float
    goal: float


def peer_rows() -> dict[str, PeerRow]:
    read = json.loads(Path(__file__).with_name("peer.json").read_text())
    return {name: PeerRow(**row) for name, row in read["rows"].items()}


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def shown(result: Result) -> str:
    """A line for a terminal."""
    share = f"{result.ours / result.peer:.0%} of Go + store's {figure(result.peer)}"
    return f"{result.name:24} {figure(result.ours):>8} {result.unit:3}  {share}, goal {figure(result.goal)}"


def table(results: Sequence[Result]) -> str:
    lines = ["| work | Go + store | oarlock | share | goal |", "|---|---|---|---|---|"]
    for one in results:
        unit = f"{one.what}, {one.unit}"
        lines.append(
            f"| {unit} | {figure(one.peer)} | {figure(one.ours)} | {one.ours / one.peer:.0%} | {figure(one.goal)} |"
        )
    return "\n".join(lines) + "\n"


def plot(results: Sequence[Result]) -> str:
    """A bar for each row: our share of what Go and its store need; a mark where the goal is."""
    left, width, step = 330, 360, 20
    height = step * len(results) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 60} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{left + width + 60}" height="{height}" fill="#fff"/>',
    ]
    for at, one in enumerate(results):
        y, share, goal = at * step + 6, one.ours / one.peer, one.goal / one.peer
        bar = min(share, 1.1) * width
        parts += [
            f'<text x="{left - 8}" y="{y + 11}" text-anchor="end">{escape(one.what)}</text>',
            f'<rect x="{left}" y="{y}" width="{bar:.1f}" height="14" fill="#4477aa"/>',
            f'<rect x="{left + min(goal, 1.1) * width:.1f}" y="{y - 2}" width="2" height="18" fill="#cc3311"/>',
            f'<text x="{left + bar + 6:.1f}" y="{y + 11}">{share:.0%}</text>',
        ]
    end = len(results) * step + 4
    parts += [
        f'<line x1="{left + width}" y1="0" x2="{left + width}" y2="{end}" stroke="#999" stroke-dasharray="3"/>',
        f'<text x="{left}" y="{end + 16}">share of what the Go server and its store need; red: goal</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def record(results: Sequence[Result], machine: str, docs: Path) -> None:
    """Write the plot, and replace what stands between the two marks of the page."""
    (docs / "performance.svg").write_text(plot(results))
    page = docs / "performance.md"
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\nMeasured {machine}.\n\n{table(results)}\n{END}{after}")
