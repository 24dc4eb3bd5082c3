"""Real servers on one store, with writers and informers at their APIs, compared with the store.

See also: `oarlock.testing.contracts.clients` for what they do; `api_store`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from api_store import ApiStore, StoredObjects, bare
from server_process import ServerProcess

from oarlock.testing.contracts.clients import Crowd
from stores import Store

__all__ = ["crowd_at_servers", "more"]


@asynccontextmanager
async def crowd_at_servers(
    store: Store, folder: Path, seed: int, *, servers: int = 2, kept: int = 300
) -> AsyncIterator[tuple[list[ServerProcess], Crowd]]:
    """Some ``oarlock serve``, four writers and three informers at them, and a watch of the store to compare with."""
    processes = [ServerProcess(folder / f"server{number}", "wardle", store.url) for number in range(servers)]
    async with AsyncExitStack() as stack:
        for process in processes:
            stack.callback(process.kill)
            await asyncio.to_thread(process.start)
        backend = store.open()
        await backend.start()
        stack.push_async_callback(backend.close)
        clients = []
        for process in processes:
            client = ApiStore(process.url, process.token, process.tls())
            await client.start()
            stack.push_async_callback(client.close)
            clients.append(client)
        async with Crowd(clients, StoredObjects(backend), seed, kept=kept, shown=bare) as crowd:
            yield processes, crowd


async def more(crowd: Crowd, events: int) -> float:
    """Wait for more events; how many seconds that took."""
    began = time.monotonic()
    await crowd.events(len(crowd.history.events) + events)
    return time.monotonic() - began
