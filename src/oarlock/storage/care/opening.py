"""Opens a store for one operation, outside of a server.

Must not know: what is done with it. See also: `oarlock.storage.url`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.url import open_backend

__all__ = ["opened"]


class _SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


@asynccontextmanager
async def opened(url: str, *, create: bool = False) -> AsyncIterator[Backend]:
    """A context manager for the started store at `url`; with `create` it is made if there is none.

    Raises `StorageError` with a one-line message.
    """
    backend = open_backend(url, _SystemClock(), create=create)
    if not backend.caps.durable:
        raise StorageError(f"nothing to do for {url!r}: its content lives in the server's memory")
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()
