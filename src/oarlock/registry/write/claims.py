"""`Claims`: what a write has taken of something that is shared (an address, a port, a share of a quota).

The recipes take it in two steps, and nobody else does: what completes the object (``Hooks.reserve``) after mutating
admission, and what depends on the final object (`Reviewers.reserve`) when everybody has agreed. `add` says how it is
given back. It is when the write is refused after that, when another write came first, and when it is cancelled. A write
that may have been stored keeps it: who hands out what is shared compares it with what is stored, now and then.
See also: `create` and `update`, which call it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from oarlock.meta.errors import StatusError
from oarlock.net.futures import shared

__all__ = ["Claims"]

log = logging.getLogger("oarlock.registry")

_undoing: set[asyncio.Future[None]] = set()
"""What is being given back: the event loop alone wouldn't keep it."""


class Claims:
    """The claims of one write; a `dry_run` takes nothing.

    `storing` says that the store has been asked to keep the object.
    """

    __slots__ = ("_undos", "dry_run", "storing")

    def __init__(self, *, dry_run: bool = False) -> None:
        self.dry_run = dry_run
        self._undos: list[Callable[[], Awaitable[object]]] = []
        self.storing = False

    def add(self, undo: Callable[[], Awaitable[object]]) -> None:
        """Something was taken that `undo` gives back. What that raises is logged."""
        self._undos.append(undo)

    async def end(self, error: BaseException | None = None) -> None:
        """An attempt has ended without success: with an error, or because another write came first."""
        undos, self._undos = self._undos, []
        refused = isinstance(error, StatusError) and error.code < 500
        nothing_stored = error is None or refused or not self.storing
        self.storing = False
        if not undos or not nothing_stored:
            return
        undoing = asyncio.ensure_future(_undo(undos))
        _undoing.add(undoing)
        undoing.add_done_callback(_undoing.discard)
        await shared(undoing)


async def _undo(undos: list[Callable[[], Awaitable[object]]]) -> None:
    for undo in reversed(undos):
        try:
            await undo()
        except Exception as error:
            log.warning("what a refused write had taken is given back later: %s", error)
