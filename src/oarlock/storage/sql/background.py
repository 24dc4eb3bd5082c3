"""`BackgroundTasks`: what a SQL backend does on its own, until it is closed.

See also: the backends, which spawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

from oarlock.storage.backend import Rev, StorageError, WriteResult

__all__ = ["REAP_EVERY_S", "BackgroundTasks", "Delete", "ignore_failure", "reap"]

REAP_EVERY_S = 1.0
_KEYS = 500


class Delete(Protocol):
    def __call__(self, key: str, *, expect: Rev) -> Awaitable[WriteResult]: ...


async def reap(due: Callable[[int], Awaitable[Sequence[tuple[str, Rev]]]], delete: Delete) -> int:
    """Delete expired keys by compare-and-swap, so one written again meanwhile stays; how many were deleted.

    `due` returns expired keys with their revisions, at most so many.
    """
    count = 0
    while expired := await due(_KEYS):
        results = await asyncio.gather(*(delete(key, expect=rev) for key, rev in expired))
        count += sum(result.ok for result in results)
    return count


class BackgroundTasks:
    """The tasks of one backend, on the loop that runs when it is made."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        """Cancel all, and wait for their end."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def ignore_failure(work: Coroutine[Any, Any, object]) -> None:
    """Await `work`. What fails here, the next write or read meets again and reports."""
    try:
        await work
    except StorageError:
        pass
