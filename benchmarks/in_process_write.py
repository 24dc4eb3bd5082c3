"""What does a typed write by code in the server's process cost, beside the same write over HTTP?

CPU per durable CREATE into SQLite, 16 in flight, and the ratio. In process it is all CPU there is: making JSON of the
object, the request, the object made of the answer. Over HTTP it is the server's alone, and that of a client beside it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import msgspec

from oarlock import ObjectMeta
from oarlock.client import Client, connect
from oarlock.client.clock import SystemClock
from oarlock.server.config import ServerConfig
from oarlock.storage.url import open_backend
from oarlock.testing import InMemory
from support.load import Load, median_of
from support.wardle import FLUNDERS, flunder, wardle
from wardle.api import v1alpha1
from wardle.server import server as wardle_server

IN_FLIGHT = 16
WRITES = 8_000
ROUNDS = 3

_sample = msgspec.json.decode(flunder("sample"))


def typed(name: str) -> v1alpha1.Flunder:
    metadata = msgspec.convert({**_sample["metadata"], "name": name, "namespace": "default"}, ObjectMeta)
    return v1alpha1.Flunder(metadata=metadata, spec=msgspec.convert(_sample["spec"], v1alpha1.FlunderSpec))


async def client_cpu_us(client: Client, prefix: str) -> float:
    """The CPU of this process for each create, in microseconds."""
    objects = iter([typed(f"{prefix}-{number}") for number in range(WRITES)])

    async def work() -> None:
        for one in objects:
            await client.create(one)

    began = time.process_time()
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return (time.process_time() - began) / WRITES * 1e6


async def in_process() -> float:
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as folder:
        clock = SystemClock()
        backend = open_backend(f"sqlite:///{folder}/store.db", clock)
        config = ServerConfig(storage="memory://")
        async with InMemory(wardle_server, backend=backend, clock=clock, config=config) as api, api.client() as client:
            return min([await client_cpu_us(client, f"round-{number}") for number in range(ROUNDS)])


async def over_http(kubeconfig: Path) -> float:
    async with connect(kubeconfig) as client:
        return min([await client_cpu_us(client, f"http-{number}") for number in range(ROUNDS)])


def main() -> None:
    numbers = iter(range(1_000_000))
    body = msgspec.json.encode(_sample)

    def create(n: int) -> tuple[str, str, bytes, str]:
        name = b'"name":"new-%d"' % next(numbers)
        return "POST", FLUNDERS, body.replace(b'"name":"sample"', name), "application/json"

    with wardle() as server:
        figure = median_of(server, create, Load(most=40_000))
        print(figure.line("over HTTP, 16 in flight"))
        beside = asyncio.run(over_http(server.folder / "kubeconfig"))
        print(f"oarlock.client beside it: {beside:,.0f} µs CPU of its own per create")
    cpu_us = asyncio.run(in_process())
    print(f"in process, typed, 16 in flight: {cpu_us:,.0f} µs CPU per create")
    print(f"in process / the server's share over HTTP: {cpu_us / figure.cpu_us:.2f}")
    print(f"in process / server and client over HTTP: {cpu_us / (figure.cpu_us + beside):.2f}")


if __name__ == "__main__":
    main()
