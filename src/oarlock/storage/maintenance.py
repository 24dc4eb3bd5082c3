"""Maintenance of a store from the command line, also while a server is using it.

Beside a running server, this process is one more process on the store: meanwhile the server can't trust its own
counter and asks the store for the current revision.

Must not know: how commands are given or printed. See also: `url`, `backend`.
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
    """A context manager for the started store at `url`. Raises `StorageError` with a one-line message."""
    backend = _open(url)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


async def check(url: str) -> Findings:
    """What is wrong with the store, one line each; empty when it is consistent.

    Raises `StorageError` with a one-line message when there is no store.
    """
    async with opened(url) as backend:
        return await backend.check()


async def compact(url: str, revision: Rev | None = None) -> tuple[Rev, Rev]:
    """Remove history before `revision`, by default the current one; returns the compacted and the current revision.

    If that much is compacted already, nothing happens. Raises `StorageError` with a one-line message,
    `FutureRevision` for a revision that the store hasn't reached.
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
