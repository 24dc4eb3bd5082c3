"""Opens a store for one operation, outside of a server.

Must not know: what is done with it. See also: `oarlock.storage.url`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from oarlock.meta.context import Clock
from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.url import open_backend

__all__ = ["Wrap", "opened"]

Wrap = Callable[[Backend, Clock], Backend]
"""Makes another backend of one, such as an `EncryptedBackend`."""


class _SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


@asynccontextmanager
async def opened(url: str, *, create: bool = False, wrap: Wrap | None = None) -> AsyncIterator[Backend]:
    """A context manager for the started store at `url`; with `create` it is made if there is none.

    `wrap` is called with the backend before it is started; without it, encrypted values are returned as they are.
    Raises `StorageError` with a one-line message.
    """
    clock = _SystemClock()
    backend = open_backend(url, clock, create=create)
    if not backend.caps.durable:
        raise StorageError(f"nothing to do for {url!r}: its content lives in the server's memory")
    if wrap is not None:
        backend = wrap(backend, clock)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()
