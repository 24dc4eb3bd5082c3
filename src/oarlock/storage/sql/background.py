"""`BackgroundTasks`: what a SQL backend does on its own, until it is closed.

See also: the backends, which spawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from oarlock.storage.backend import StorageError

__all__ = ["BackgroundTasks", "ignore_failure"]


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
