"""The revision a watch has reached, and waiting for it to reach another.

Must not know: what is being watched. See also: `watch_cache`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oarlock.storage.backend import FutureRevision, Rev, StorageError

__all__ = ["Position"]


class Position:
    """A revision that only grows, with its waiters.

    While there are waiters, `ask` is called at once and then every `nudge_s` seconds, never concurrently. It should
    make the store report its revision (`Backend.request_progress`). Only when the store has begun another history does
    the revision go back (`restart`).
    """

    __slots__ = ("_ask", "_asking", "_closed", "_nudge_s", "_waiters", "rev")

    rev: Rev

    def __init__(self, ask: Callable[[], Awaitable[None]], nudge_s: float) -> None:
        self.rev = 0
        self._ask = ask
        self._nudge_s = nudge_s
        self._asking: asyncio.Task[None] | None = None
        self._closed = False
        self._waiters: dict[asyncio.Future[None], Rev] = {}

    def advance(self, rev: Rev) -> None:
        """Set the revision to `rev` if that is larger, and wake the waiters."""
        if rev > self.rev:
            self.rev = rev
            if self._waiters:
                self._wake()

    def _wake(self) -> None:
        for future, rev in list(self._waiters.items()):
            if rev <= self.rev or self._closed:
                del self._waiters[future]
                if not future.done():
                    future.set_result(None)

    def interrupt(self) -> None:
        """End all waits now: what they wait for isn't coming."""
        for future in self._waiters:
            if not future.done():
                future.set_result(None)

    def restart(self, rev: Rev) -> None:
        """Set the revision to one of another history, which may be smaller."""
        self.rev = rev
        self._wake()

    async def reach(self, rev: Rev, timeout_s: float, *, ask_after_s: float = 0.0) -> bool:
        """Wait until `rev` is reached, at most `timeout_s` seconds of the loop's time.

        The first `ask` is made after `ask_after_s`: a caller who knows that the events are coming doesn't ask at once.
        False on timeout, or when the position was closed or interrupted.
        """
        if rev <= self.rev:
            return True
        loop = asyncio.get_running_loop()
        start = loop.time()
        arrival: asyncio.Future[None] = loop.create_future()
        self._waiters[arrival] = rev
        try:
            while not arrival.done() and not self._closed:
                elapsed = loop.time() - start
                if elapsed >= timeout_s:
                    break
                if elapsed >= ask_after_s:
                    self._nudge()
                await asyncio.wait((arrival,), timeout=min(timeout_s - elapsed, self._nudge_s))
            return rev <= self.rev
        finally:
            self._waiters.pop(arrival, None)

    async def require(self, rev: Rev, timeout_s: float) -> None:
        """Like `reach`, but raises `FutureRevision` instead of returning False."""
        if rev > self.rev and not await self.reach(rev, timeout_s):
            raise FutureRevision(self.rev)

    def _nudge(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask_quietly())

    async def _ask_quietly(self) -> None:
        try:
            await self._ask()
        except StorageError:
            pass  # whoever waits finds out by not arriving, and says so with more context

    async def close(self) -> None:
        """Stop asking, and release the waiters."""
        self._closed = True
        self._wake()
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))
