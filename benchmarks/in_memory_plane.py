"""How much CPU does a test pay for a control plane of its own, from making it to its first answers?

The first in a process, and the following ones: in memory, and on a port. `--runs N` makes N of each. A full collection
of garbage falls into some of them, and costs as much as the process has objects; the median says little of those.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory, ServerThread, TestClient

NAMESPACE = "/api/v1/namespaces/default"


async def in_memory() -> tuple[float, float]:
    begun = time.process_time()
    async with InMemory(ControlPlane()) as api:
        assert (await api.get(NAMESPACE)).status == 200
        assert (await api.post(f"{NAMESPACE}/configmaps", {"metadata": {"name": "a"}})).status == 201
        ready = time.process_time()
    return ready - begun, time.process_time() - begun


def on_a_port() -> tuple[float, float]:
    begun = time.process_time()
    with ServerThread(ControlPlane()) as running:
        client: TestClient = running.client()
        assert client.get(NAMESPACE).status == 200
        assert client.post(f"{NAMESPACE}/configmaps", {"metadata": {"name": "a"}}).status == 201
        ready = time.process_time()
    return ready - begun, time.process_time() - begun


def told(what: str, times: list[tuple[float, float]]) -> None:
    answered, ended = ([1000 * one[n] for one in times] for n in (0, 1))
    later, all_of_it = answered[2:], ended[2:]
    print(f"{what}, CPU to the second answer: {answered[0]:.0f} ms the first, {answered[1]:.0f} ms the second,")
    print(
        f"  then {statistics.median(later):.0f} ms (median; mean {statistics.mean(later):.0f}, best {min(later):.0f});"
    )
    print(f"  with its end {statistics.median(all_of_it):.0f} ms (median; mean {statistics.mean(all_of_it):.0f})")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=12)
    runs = parser.parse_args().runs
    told("in memory", [asyncio.run(in_memory()) for _ in range(runs)])
    told("on a port", [on_a_port() for _ in range(runs)])


if __name__ == "__main__":
    main()
