"""What a controller costs beside its user's code: µs for each key that is queued, coalesced and reconciled.

Run alone: ``python benchmarks/controllers.py [keys]``. A reconcile that does nothing is called for all objects of a
server in memory; then every object changes three times at once, which is one reconcile each. The queue alone is the
last line. Best of 5.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from oarlock import APIServer, Model, ObjectMeta, Resource
from oarlock.client.clock import SystemClock
from oarlock.controllers import Controller, ControllerGroup, ObjectKey, Result
from oarlock.controllers.running.group import ControllerRun
from oarlock.controllers.running.work_queue import WorkQueue
from oarlock.testing import InMemory

ROUNDS = 5


class ThingSpec(Model):
    size: int = 0


class Thing(Resource, group="bench.example.com", version="v1"):
    """A thing."""

    spec: ThingSpec


class Things(Controller[Thing]):
    """Does nothing, and counts it."""

    def __init__(self) -> None:
        self.calls = 0

    async def reconcile(self, key: ObjectKey) -> Result | None:
        self.calls += 1
        return None


def queue_all(run: ControllerRun, names: list[str]) -> None:
    """As the handler of an informer does it, three times for each object."""
    [loop] = run._loops
    feed = loop._feeds[0]
    things = [loop.informers[Thing].get(name, "default") for name in names]
    for _ in range(3):
        for thing in things:
            loop._changed(feed, thing, thing)


async def measure(count: int) -> tuple[float, float]:
    """Seconds for the first reconcile of all, and for that after three changes of each."""
    async with InMemory(APIServer(serve=[Thing])) as api:
        client = api.client()
        names = [f"thing-{number}" for number in range(count)]
        for name in names:
            await client.create(Thing(metadata=ObjectMeta(name=name, namespace="default"), spec=ThingSpec()))
        things = Things()
        begun = time.perf_counter()
        async with ControllerGroup([things]).running(client, SystemClock()) as run:
            await run.idle()
            first = time.perf_counter() - begun
            assert things.calls == count
            begun = time.perf_counter()
            queue_all(run, names)
            await run.idle()
            second = time.perf_counter() - begun
            assert things.calls == 2 * count
    return first, second


async def measure_queue(count: int) -> float:
    queue = WorkQueue(SystemClock())
    keys = [ObjectKey("default", f"thing-{number}") for number in range(count)]
    begun = time.perf_counter()
    for _ in range(3):
        for key in keys:
            queue.add(key)
    for _ in keys:
        found: Any = await queue.get()
        queue.forget(found)
        queue.done(found)
    return time.perf_counter() - begun


async def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    rounds = [await measure(count) for _ in range(ROUNDS)]
    queues = [await measure_queue(count) for _ in range(ROUNDS)]
    for what, seconds in (
        ("start, informer synced, all reconciled", min(first for first, _ in rounds)),
        ("changed three times, reconciled once", min(second for _, second in rounds)),
        ("the queue alone: added three times, handed out once", min(queues)),
    ):
        print(f"{seconds / count * 1e6:8.1f} µs a key: {what} ({count} keys)")


asyncio.run(main())
