"""How long does one client wait for a GET while another has a thousand lists in flight?

Prints the 99th percentile of quiet and of busy, and their ratio, with priority and fairness and without. Each list has
1,000 objects of a kilobyte; a greedy connection that is refused comes again after the time it was told.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def greedy(program: Path, port: int) -> Iterator[None]:
    """`CONNECTIONS` lists in flight, by a program that costs little beside the server."""
    command = [str(program), f"127.0.0.1:{port}", FLUNDERS, "greedy", str(CONNECTIONS)]
    # what is measured is how the server shares itself, not how the machine is shared with this client
    with subprocess.Popen(
        ["chrt", "-o", "0", "nice", "-n", "19", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        yield
        taken, refused, other, size = process.communicate("", timeout=60)[0].split()
        print(f"  lists: {taken} answered, {refused} refused, {other} otherwise, {int(size) / 1e6:.0f} MB")


def built(folder: str) -> Path:
    """The greedy client, compiled."""
    program = Path(folder) / "greedy"
    source = Path(__file__).parent / "support" / "greedy"
    if shutil.which("go") is None:
        sys.exit("this needs Go, for a client that is fast enough")
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=source, check=True, timeout=300)
    return program


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


def measured(program: Path, *options: str) -> None:
    with wardle(options=options) as server:
        fill(server, lambda n: ("POST", FLUNDERS, flunder(f"f{n}", n), "application/json"), OBJECTS)
        users = f'{TOKEN},bench,bench,"system:masters"\ngreedy,greedy,2\nmodest,modest,3\n'
        (server.folder / "tokens.csv").write_text(users)
        asyncio.run(known(server))
        quiet, _ = asyncio.run(gets(server))
        with greedy(program, server.port):
            cpu = server.cpu_s()
            busy, refused = asyncio.run(gets(server))
            cpu = (server.cpu_s() - cpu) / SECONDS
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
    with tempfile.TemporaryDirectory() as folder:
        program = built(folder)
        measured(program, "--enable-priority-and-fairness")
        measured(program)
