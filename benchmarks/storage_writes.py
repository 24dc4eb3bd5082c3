"""How many durable creates per second does the SQLite store make, and at what price in CPU?

    python benchmarks/storage_writes.py [--seconds 2] [--url sqlite:////path/to/new.db]

Each row: creates in flight, creates per second, CPU µs per create (all threads), median and 99th percentile latency.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from pathlib import Path

from oarlock.client.clock import SystemClock
from oarlock.storage.backend import Backend
from oarlock.storage.url import open_backend

VALUE = b"x" * 1024


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def creates(backend: Backend, in_flight: int, seconds: float) -> str:
    latencies: list[float] = []
    stop = time.perf_counter() + seconds

    async def client(number: int) -> None:
        index = 0
        while (begun := time.perf_counter()) < stop:
            result = await backend.put(f"/registry/pods/{in_flight}-{number:03}/pod-{index:08}", VALUE, expect=0)
            assert result.ok
            latencies.append(time.perf_counter() - begun)
            index += 1

    cpu, begun = cpu_s(), time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(in_flight)))
    cpu, wall = cpu_s() - cpu, time.perf_counter() - begun
    done = len(latencies)
    p99 = statistics.quantiles(latencies, n=100)[98]
    return (
        f"{in_flight:3} in flight  {done / wall:8.0f} creates/s  {cpu / done * 1e6:6.1f} µs CPU each"
        f"  p50 {statistics.median(latencies) * 1e3:6.2f} ms  p99 {p99 * 1e3:6.2f} ms"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--url", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        backend = open_backend(given.url or f"sqlite:///{Path(folder) / 'store.db'}", SystemClock())
        await backend.start()
        try:
            for in_flight in (1, 16, 64):
                print(await creates(backend, in_flight, given.seconds))
            wrong = await backend.check()
            assert not wrong, wrong
        finally:
            await backend.close()


if __name__ == "__main__":
    asyncio.run(main())
