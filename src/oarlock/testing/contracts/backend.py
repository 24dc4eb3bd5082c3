"""The contract of `oarlock.storage.backend` as a suite: subclass it for your backend and run pytest.

    class TestMine(BackendContract):
        def backend(self, folder, clock):
            return MyBackend(folder / "store", clock)

        def replica(self, folder, clock):           # only if several servers may share a store
            return MyBackend(folder / "store", clock)

        async def lose_after(self, backend, rev):   # only if the store may lose its newest history
            ...

Test names begin with the id of the promise they hold you to (R1, W2, V3…). They are for one process; what must
hold among processes and after ``kill -9`` (R4, M1, W4) needs processes, and is tested where a backend is.

Must not know: any particular backend. See also: `writes`, `watches`, `upkeep`; `histories` for
random ones.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from oarlock.storage.backend import Compacted
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import (
    END,
    START,
    Suite,
    caught_up,
    mutate_at_random,
    record,
    refused,
    two_servers,
)
from oarlock.testing.contracts.upkeep import CompactionContract, ExpiryContract
from oarlock.testing.contracts.watches import ListContract, WatchContract
from oarlock.testing.contracts.writes import RevisionContract, WriteContract


class EpochContract(Suite):
    """`Backend.begin_epoch`."""

    HIGHER = 500
    """How far above the store's own revision the tests ask for."""

    async def test_r3_another_epoch_begins_above_what_is_known_and_keeps_what_lives(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            await mutate_at_random(backend, 3, 50)
            kept = (await backend.put("/t/kept", b"1", expect=0)).rev
            epoch, before = await backend.epoch(), await backend.list(START, END)
            rev = await backend.begin_epoch(before.rev + self.HIGHER)
            assert rev > before.rev + self.HIGHER
            assert await backend.current_rev() == await backend.compact_rev() == rev
            assert await backend.epoch() != epoch
            after = await backend.list(START, END)
            assert (after.kvs, after.rev) == (before.kvs, rev)
            assert (await backend.put("/t/kept", b"2", expect=kept)).rev > rev
            assert not await backend.check()

    async def test_r3_no_watch_and_no_read_crosses_into_another_epoch(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            old = (await backend.put("/t/a", b"1", expect=0)).rev
            watch = await record(backend, old)
            await caught_up(backend, watch)
            rev = await backend.begin_epoch(old + self.HIGHER)
            assert isinstance(await watch.until_failed(), Compacted)
            # One that somebody may have been given before the newest history was lost.
            for stale in (old, old + self.HIGHER, rev - 1):
                late = await record(backend, stale)
                assert isinstance(await late.until_failed(), Compacted)
                await refused(backend.list(START, END, rev=stale), Compacted)
                await refused(backend.get("/t/a", rev=stale), Compacted)
            watch = await record(backend, rev)
            new = (await backend.put("/t/a", b"2", expect=old)).rev
            await watch.until(new)
            assert [(event.rev, event.prev_rev, event.prev_value) for event in watch.events] == [(new, old, b"1")]

    async def test_r3_epochs_follow_one_another_and_are_remembered(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            await backend.put("/t/a", b"1", expect=0)
            epochs, revs = [await backend.epoch()], [await backend.current_rev()]
            for _ in range(3):
                revs.append(await backend.begin_epoch(0))  # whatever is requested, it never goes back
                epochs.append(await backend.epoch())
            assert len(set(epochs)) == len(epochs)
            assert revs == sorted(set(revs))
            if not backend.caps.durable:
                return
        async with self.opened(tmp_path) as backend:
            assert await backend.epoch() == epochs[-1]
            assert await backend.current_rev() == revs[-1]
            assert (await backend.list(START, END)).kvs[0].value == b"1"
            assert not await backend.check()

    async def test_r3_a_key_still_expires_in_another_epoch(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        async with self.opened(tmp_path, clock) as backend:
            await backend.put("/t/a", b"1", expect=0, ttl_ms=5_000)
            await backend.begin_epoch(0)
            clock.advance(6)
            await self.expire(backend)
            assert (await backend.get("/t/a"))[0] is None

    async def test_r3_another_epoch_begins_while_everybody_writes(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            writers = [asyncio.create_task(mutate_at_random(backend, seed, 60)) for seed in range(3)]
            await asyncio.sleep(0)
            rev = await backend.begin_epoch(100)
            await asyncio.gather(*writers)
            watch = await record(backend, rev)
            await caught_up(backend, watch)
            assert all(event.rev > rev for event in watch.events)
            assert not await backend.check()

    @two_servers
    async def test_r3_another_server_is_in_the_new_epoch_at_once(self, tmp_path: Path) -> None:
        async with self.pair(tmp_path) as (first, second):
            old = (await first.put("/t/a", b"1", expect=0)).rev
            watch = await record(second, old)
            await caught_up(second, watch)
            epoch = await second.epoch()
            rev = await first.begin_epoch(old)
            assert await second.epoch() == await first.epoch() != epoch
            assert await second.current_rev() == rev
            assert isinstance(await watch.until_failed(), Compacted)
            watch = await record(second, rev)
            new = (await second.put("/t/a", b"2", expect=old)).rev
            await watch.until(new)
            assert [event.rev for event in watch.events] == [new]
            assert not await second.check()


class BackendContract(
    RevisionContract,
    WriteContract,
    ListContract,
    WatchContract,
    CompactionContract,
    ExpiryContract,
    EpochContract,
):
    """Everything a backend promises, for one process and, with `replica`, for two servers in one process."""
