"""CPU of a process and everything it started, which is how databases work."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree_cpu_s(pid: int) -> float:
    """CPU seconds of `pid`, of its living descendants, and of those that it has waited for."""
    times: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            times[int(entry.name)] = int(fields[1]), sum(int(field) for field in fields[11:15])
    members = {pid}
    while children := {child for child, (parent, _) in times.items() if parent in members} - members:
        members |= children
    return sum(ticks for member, (_, ticks) in times.items() if member in members) / _TICKS
