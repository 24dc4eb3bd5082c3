"""How long does one piece of work keep the event loop? The longest gap between two ticks, per large request."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable

from support.wardle import FLUNDERS, OTHER_VERSION, ROOT, flunder

sys.path.insert(0, str(ROOT))

from examples.wardle.server import server

from oarlock.server.clock import SystemClock
from oarlock.testing.server import InMemory

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
OBJECTS = 10_000
TICK_S = 0.001


class Gaps:
    """Ticks as often as the loop lets it and remembers the longest wait."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last = time.perf_counter()
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now = time.perf_counter()
        self.longest_s = max(self.longest_s, now - self._last - TICK_S)
        self._last = now
        self._handle = self._loop.call_later(TICK_S, self._tick)

    def stop(self) -> None:
        self._handle.cancel()


async def measure(what: str, work: Callable[[], Awaitable[object]]) -> None:
    longest = []
    for _ in range(5):
        gaps = Gaps()
        await asyncio.sleep(0.01)
        await work()
        await asyncio.sleep(2 * TICK_S)  # the tick that is overdue counts
        gaps.stop()
        longest.append(gaps.longest_s * 1e3)
    print(f"{what}: the loop is kept for at most {sorted(longest)[2]:.1f} ms (median of 5; worst {max(longest):.1f})")


async def initial_events(api: InMemory) -> None:
    """Open a watch and let it write what is there."""
    async with api.watch(f"{FLUNDERS}?resourceVersion=0") as events:
        while events.arrived < OBJECTS:  # noqa: ASYNC110 (nothing is told when the last one is written)
            await asyncio.sleep(TICK_S)


async def main() -> None:
    async with InMemory(server, clock=SystemClock()) as api:
        for n in range(OBJECTS):
            await api.request("POST", FLUNDERS, flunder(f"object-{n:05d}", n), {"content-type": "application/json"})
        gc.collect()
        gc.freeze()
        await measure(f"LIST {OBJECTS:,}", lambda: api.get(FLUNDERS))
        await measure(f"LIST {OBJECTS:,} in the version that isn't stored", lambda: api.get(OTHER_VERSION))
        await measure(f"LIST {OBJECTS:,} as Table", lambda: api.get(FLUNDERS, accept=TABLE))
        await measure(f"LIST {OBJECTS:,} as PartialObjectMetadata", lambda: api.get(FLUNDERS, accept=METADATA))
        await measure("LIST 1,000 as YAML", lambda: api.get(f"{FLUNDERS}?limit=1000", accept="application/yaml"))
        await measure(f"LIST {OBJECTS:,}, gzip", lambda: api.get(FLUNDERS, accept_encoding="gzip"))
        await measure(f"LIST {OBJECTS:,} with a selector", lambda: api.get(f"{FLUNDERS}?labelSelector=bucket%3Db7"))
        await measure(f"watch of {OBJECTS:,} initial objects", lambda: initial_events(api))
        await measure("/openapi/v2 and v3", lambda: asyncio.gather(api.get("/openapi/v2"), api.get("/openapi/v3")))
        await measure("/metrics", lambda: api.get("/metrics"))


if __name__ == "__main__":
    asyncio.run(main())
