"""A process that would lead: ``leader.py STORE``. While it leads it prints the time, step by step."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from oarlock.client.clock import SystemClock
from oarlock.storage.election import Election, LeaseTimes
from oarlock.storage.url import open_backend

TIMES = LeaseTimes(duration_s=2, renew_deadline_s=1.2, retry_s=0.2)


async def main(storage: str) -> None:
    backend = open_backend(storage, SystemClock())
    await backend.start()
    os.write(1, b"here\n")
    election = Election(backend, "/oarlock/leases/test", SystemClock(), times=TIMES)

    async def lead() -> None:
        while True:
            now = time.monotonic()  # read first: the step is one that was allowed after this moment
            if election.leading:
                os.write(1, b"%.6f\n" % now)
            await asyncio.sleep(0.01)

    await election.run(lead)


asyncio.run(main(sys.argv[1]))
