"""How long until an informer of 100,000 objects over HTTP is ready, and how large is its process?

By WatchList and by list and watch, each in a process of its own. `--objects N` for another number.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from pathlib import Path

from oarlock.client import connect
from oarlock.client.informers.remote_objects import RemoteObjects
from support.load import fill
from support.wardle import FLUNDERS, flunder, wardle

KIND = "wardle.example.com/v1alpha1/Flunder"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--objects", type=int, default=100_000)
    options.add_argument("--client", default="", help=argparse.SUPPRESS)
    options.add_argument("--lists", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.client:
        asyncio.run(follow(given.client, given.objects, lists=given.lists))
        return
    with wardle() as server:
        fill(
            server,
            lambda n: ("POST", FLUNDERS, flunder(f"object-{n:06d}", n), "application/json"),
            given.objects,
        )
        client = [sys.executable, __file__, "--client", str(server.folder / "kubeconfig")]
        for how in ([], ["--lists"]):
            before = server.cpu_s()
            subprocess.run([*client, "--objects", str(given.objects), *how], check=True, timeout=120)
            print(f"  the server used {server.cpu_s() - before:.1f} s of CPU for it")


async def follow(kubeconfig: str, objects: int, *, lists: bool) -> None:
    async with connect(kubeconfig) as client:
        if lists:

            async def no_watch_list(self: RemoteObjects[object], synced: object) -> str:
                return ""

            RemoteObjects._initial_events = no_watch_list  # type: ignore[method-assign,assignment]
        idle = rss_mb()
        began, cpu = time.perf_counter(), time.process_time()
        async with client.informer(KIND) as flunders:
            await flunders.synced()
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            assert len(flunders) == objects, len(flunders)
            how = "list and watch" if lists else "WatchList"
            print(
                f"{how}: {objects:,} objects in {seconds:.2f} s ({cpu:.2f} s of CPU); "
                f"{rss_mb():.0f} MB, at most {rss_mb('VmHWM'):.0f} MB, of which {idle:.0f} MB were there before",
                flush=True,
            )


def rss_mb(what: str = "VmRSS") -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(what))


if __name__ == "__main__":
    main()
