"""How long does one client wait for a GET while another has a thousand lists in flight?

Prints the 99th percentile of quiet and of busy, and their ratio, with priority and fairness and without. Each list has
1,000 objects of a kilobyte; a greedy connection that is refused comes again after the time it was told.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import ssl
import statistics
import sys
import time
from multiprocessing.synchronize import Event

from support.load import fill
from support.wardle import FLUNDERS, TOKEN, Server, flunder, wardle

CONNECTIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
OBJECTS = 1000
SECONDS = 10.0
EVERY_S = 0.02


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, user: str) -> tuple[int, float]:
    """The status of an answer, which is read whole, and the Retry-After it has."""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {user}\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    headers = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
    left = int(headers["content-length"])
    while left:
        left -= len(await reader.read(min(left, 1 << 20)))
    return int(head.split(" ", 2)[1]), float(headers.get("retry-after", 0))


async def greed(port: int, ca: str, began: Event, ends: Event) -> None:
    context = ssl.create_default_context(cafile=ca)
    slots = asyncio.Semaphore(20)
    all_open = asyncio.Barrier(CONNECTIONS)

    async def lists() -> None:
        async with slots:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        await all_open.wait()
        began.set()
        while not ends.is_set():
            status, again_s = await ask(reader, writer, FLUNDERS, "greedy")
            if status == 429:
                await asyncio.sleep(again_s)

    tasks = [asyncio.create_task(lists()) for _ in range(CONNECTIONS)]
    await asyncio.to_thread(ends.wait)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def greedy(port: int, ca: str, began: Event, ends: Event) -> None:
    os.nice(19)  # what is measured is how the server shares itself, not how the machine is shared with this client
    asyncio.run(greed(port, ca, began, ends))


async def gets(server: Server) -> tuple[list[float], int]:
    """Milliseconds of GETs, one every 20 ms, on one connection; and how many were refused."""
    context = server.tls("http/1.1")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname="localhost")
    took, refused = [], 0
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        began = time.perf_counter()
        status, _ = await ask(reader, writer, f"{FLUNDERS}/f7", "modest")
        took.append((time.perf_counter() - began) * 1000)
        refused += status != 200
        await asyncio.sleep(EVERY_S)
    writer.close()
    return took, refused


def p99(took: list[float]) -> float:
    return statistics.quantiles(took, n=100)[98]


def measured(*options: str) -> None:
    with wardle(options=options) as server:
        fill(server, lambda n: ("POST", FLUNDERS, flunder(f"f{n}", n), "application/json"), OBJECTS)
        users = f'{TOKEN},bench,bench,"system:masters"\ngreedy,greedy,2\nmodest,modest,3\n'
        (server.folder / "tokens.csv").write_text(users)
        asyncio.run(known(server))
        quiet, _ = asyncio.run(gets(server))
        spawn = multiprocessing.get_context("spawn")
        began, ends = spawn.Event(), spawn.Event()
        child = spawn.Process(target=greedy, args=(server.port, server.ca, began, ends))
        child.start()
        began.wait(120)
        cpu = server.cpu_s()
        busy, refused = asyncio.run(gets(server))
        cpu = (server.cpu_s() - cpu) / SECONDS
        ends.set()
        child.join(20)
    print(
        f"{' '.join(options) or 'limits of requests in flight'}: p99 of a GET {p99(quiet):.1f} ms when quiet, "
        f"{p99(busy):.1f} ms beside {CONNECTIONS} lists in flight ({p99(busy) / p99(quiet):.1f} times; "
        f"median {statistics.median(quiet):.1f} and {statistics.median(busy):.1f} ms, {len(busy)} GETs, "
        f"{refused} of them refused, server at {cpu:.0%})"
    )


async def known(server: Server) -> None:
    """Wait until the new tokens are read."""
    context = server.tls("http/1.1")
    for _ in range(600):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=context, server_hostname="localhost"
        )
        status, _ = await ask(reader, writer, f"{FLUNDERS}/f7", "modest")
        writer.close()
        if status == 200:
            return
        await asyncio.sleep(0.1)
    sys.exit("the token file was not read again")


if __name__ == "__main__":
    measured("--enable-priority-and-fairness")
    measured()
