"""`CredentialSource`: a credential that is fetched once for all who wait for it, and again when a server refuses it.

Must not know: what is fetched.
Source: client-go ``plugin/pkg/client/auth/exec``, which compares what was refused with what there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["CredentialSource"]

T = TypeVar("T")


class CredentialSource(Generic[T]):
    """`value` is what there is, `generation` how often it has been fetched. All who wait raise what `fetch` raises."""

    def __init__(self, fetch: Callable[[], Awaitable[T]], value: T | None = None) -> None:
        self.value = value
        self.generation = 0
        self._fetch = fetch
        self._running = asyncio.Lock()
        self._failures = 0
        self._error = Exception()

    async def current(self, lasts: Callable[[T], bool]) -> T:
        """The value, if it `lasts`, else another."""
        value = self.value
        if value is not None and lasts(value) and not self._running.locked():
            return value
        return await self._wanted(lambda found: found is not None and lasts(found))

    async def instead(self, generation: int) -> None:
        """Fetch another value than that of `generation`, which was refused."""
        await self._wanted(lambda found: found is not None and self.generation != generation)

    async def _wanted(self, does: Callable[[T | None], bool]) -> T:
        """The value, if it `does`, else another. A failure is that of all who waited for the same attempt."""
        failures = self._failures
        async with self._running:
            value = self.value
            if value is not None and does(value):
                return value
            if self._failures != failures:
                raise type(self._error)(*self._error.args)
            try:
                value = await self._fetch()
            except Exception as error:
                self._failures += 1
                self._error = error
                raise
            self.value = value
            self.generation += 1
            return value
