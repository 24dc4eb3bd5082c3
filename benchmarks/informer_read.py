"""What does reading an informer in the server's process cost? Microseconds for each `get`, typed and as a tree."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from oarlock.testing import InMemory
from support.wardle import FLUNDERS, flunder
from wardle.api import v1alpha1
from wardle.server import server

OBJECTS = 1_000
ROUNDS = 50


def us_each(read: Callable[[str], Any], names: list[str]) -> float:
    """The median of several rounds over all names."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for name in names:
            read(name)
        times.append((time.perf_counter() - began) / len(names) * 1e6)
    return statistics.median(times)


async def main() -> None:
    names = [f"f{number}" for number in range(OBJECTS)]
    async with InMemory(server) as api, api.client() as client:
        for name in names:
            assert (await api.post(FLUNDERS, flunder(name))).status == 201
        kinds: dict[str, Any] = {
            "typed": v1alpha1.Flunder,
            "as a tree": "wardle.example.com/v1alpha1/Flunder",
            "as a tree of another version": "wardle.example.com/v1beta1/Flunder",
        }
        for how, kind in kinds.items():
            async with client.informer(kind) as flunders:
                await flunders.synced()
                began = time.perf_counter()
                for name in names:
                    assert flunders.get(name, "default") is not None
                first = (time.perf_counter() - began) / OBJECTS * 1e6
                again = us_each(lambda name, informer=flunders: informer.get(name, "default"), names)
                print(f"{how}: {again:.2f} µs per get, {first:.1f} µs for the first after a change")


if __name__ == "__main__":
    asyncio.run(main())
