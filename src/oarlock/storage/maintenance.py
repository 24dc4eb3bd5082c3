"""What an operator does to a store from the command line, also while a server runs on it.

Opened beside a running server, this process is one more member of the store: the server keeps serving and
asks the store instead of its own counter as long as this takes.

Must not know: how commands are given or printed. Next: `url`, `backend`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from oarlock.storage.backend import Backend, Compacted, Findings, Rev, StorageError
from oarlock.storage.url import open_backend

__all__ = ["check", "compact", "opened"]


class _SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def _open(url: str) -> Backend:
    backend = open_backend(url, _SystemClock(), create=False)
    if not backend.caps.durable:
        raise StorageError(f"nothing to do for {url!r}: its content lives in the server's memory")
    return backend


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Backend]:
    """The store `url` names, started, while the context lasts. Raises `StorageError` with one line."""
    backend = _open(url)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


async def check(url: str) -> Findings:
    """What is wrong with the store, one line each; empty when it is sound.

    Raises `StorageError` with one line when there is no store to look at.
    """
    async with opened(url) as backend:
        return await backend.check()


async def compact(url: str, revision: Rev | None = None) -> tuple[Rev, Rev]:
    """Forget history before `revision`, by default before the current one; returns (compacted, current) revision.

    Where that much or more is forgotten already, nothing happens. Raises `StorageError` with one line,
    `FutureRevision` for a revision the store hasn't reached.
    """
    if revision is not None and revision < 1:
        raise StorageError(f"cannot compact to revision {revision}: revisions begin at 1")
    async with opened(url) as backend:
        current = await backend.current_rev()
        try:
            await backend.compact(current if revision is None else revision)
        except Compacted:
            pass
        return await backend.compact_rev(), await backend.current_rev()
