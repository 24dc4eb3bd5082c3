"""The compactor keeps between one and two intervals of history, beside as many others as there are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oarlock.storage.backend import Compacted, Rev
from oarlock.storage.compactor import Compactor
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import refused


async def write(backend: MemoryBackend, times: int) -> Rev:
    kv, _ = await backend.get("/t/a")
    rev = kv.mod_rev if kv else 0
    for _ in range(times):
        rev = (await backend.put("/t/a", b"", expect=rev)).rev
    return rev


def test_it_compacts_to_what_was_current_one_interval_ago() -> None:
    async def scenario() -> None:
        backend = MemoryBackend(VirtualClock())
        compactor = Compactor(backend)
        first = await write(backend, 5)
        await compactor.once()
        assert await backend.compact_rev() == 0, "nothing is old enough yet"
        second = await write(backend, 5)
        await compactor.once()
        assert await backend.compact_rev() == first
        await write(backend, 5)
        await compactor.once()
        assert await backend.compact_rev() == second
        await backend.get("/t/a", rev=second)
        await refused(backend.get("/t/a", rev=second - 1), Compacted)

    asyncio.run(scenario())


def test_a_quiet_store_is_left_alone() -> None:
    async def scenario() -> None:
        backend = MemoryBackend(VirtualClock())
        compactor = Compactor(backend)
        rev = await write(backend, 5)
        for _ in range(5):
            await compactor.once()
        assert await backend.compact_rev() == rev
        last = await write(backend, 1)
        await compactor.once()
        await compactor.once()
        assert await backend.compact_rev() == last

    asyncio.run(scenario())


def test_two_compactors_keep_at_least_one_interval() -> None:
    async def scenario() -> None:
        backend = MemoryBackend(VirtualClock())
        one, two = Compactor(backend), Compactor(backend)
        # Half an interval apart: what was current half an interval ago must be there at every moment.
        half_ago = await write(backend, 1)
        for round_ in range(10):
            await (one, two)[round_ % 2].once()
            await backend.get("/t/a", rev=half_ago)
            half_ago = await write(backend, 3)
        assert await backend.compact_rev() > 0

    asyncio.run(scenario())


def test_a_store_that_fails_is_asked_again() -> None:
    class Closing(MemoryBackend):
        """Answers that it is closed until it is opened."""

        async def current_rev(self) -> Rev:
            self._closed = self.refuse
            return await super().current_rev()

        refuse = False

    async def scenario() -> None:
        backend = Closing(VirtualClock())
        compactor = Compactor(backend)
        rev = await write(backend, 5)
        await compactor.once()
        backend.refuse = True
        await compactor.once()
        backend.refuse = False
        await compactor.once()
        assert await backend.compact_rev() == rev

    asyncio.run(scenario())


def test_it_sleeps_between() -> None:
    async def scenario() -> None:
        backend = MemoryBackend(VirtualClock())
        slept: list[float] = []

        def sleeping(after: int) -> Callable[[float], Awaitable[None]]:
            async def sleep(seconds: float) -> None:
                slept.append(seconds)
                await write(backend, 1)
                if len(slept) == after:
                    raise asyncio.CancelledError

            return sleep

        await asyncio.gather(Compactor(backend, interval_s=7, sleep=sleeping(4)).run(), return_exceptions=True)
        assert slept == [7, 7, 7, 7]
        assert await backend.compact_rev() == 3

    asyncio.run(scenario())
