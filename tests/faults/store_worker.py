"""A process that writes to a store until it is killed: ``store_worker.py URL NAME``. Prints each acknowledged write."""

from __future__ import annotations

import asyncio
import os
import sys

from oarlock.storage.backend import Unavailable
from oarlock.storage.url import open_backend
from oarlock.testing.contracts.support import START
from stores import RealClock


async def main(url: str, name: str) -> None:
    backend = open_backend(url, RealClock())
    await backend.start()

    async def write(number: int) -> None:
        index = 0
        while True:
            index += 1
            key = f"{START}{name}-{number}-{index}"
            try:
                result = await backend.put(key, b"x" * 1000, expect=0)
            except Unavailable:
                await asyncio.sleep(0.05)
                continue
            assert result.ok, result
            os.write(1, f"{key} {result.rev}\n".encode())

    await asyncio.gather(*(write(number) for number in range(8)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
