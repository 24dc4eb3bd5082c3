"""C1, T1 and R3: compaction, keys with a time to live, another epoch after a restore or a copy.

Also what `start`, `close` and `check` promise. See also: `histories`; `watches`, for an epoch after a failover.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from oarlock.storage.backend import Compacted, FutureRevision, Op, StorageError, Unavailable
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import (
    END,
    START,
    Suite,
    caught_up,
    mutate_at_random,
    record,
    refused,
    running,
    two_servers,
)


class CompactionContract(Suite):
    """C1."""

    async def test_c1_history_goes_and_what_lives_stays(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            old = (await backend.put("/t/old", b"old", expect=0)).rev
            assert await backend.compact_rev() < old, "of a store that shares its history, earlier"
            a1 = (await backend.put("/t/a", b"1", expect=0)).rev
            temporary = (await backend.put("/t/gone", b"", expect=0)).rev
            a2 = (await backend.put("/t/a", b"2", expect=a1)).rev
            middle = (await backend.delete("/t/gone", expect=temporary)).rev
            a3 = (await backend.put("/t/a", b"3", expect=a2)).rev
            before = await backend.list(START, END, rev=middle)
            await backend.compact(middle)
            assert await backend.compact_rev() == middle
            assert (await backend.list(START, END, rev=middle)).kvs == before.kvs
            assert [(kv.key, kv.mod_rev) for kv in before.kvs] == [("/t/a", a2), ("/t/old", old)]
            kv, _ = await backend.get("/t/old")
            assert kv is not None
            assert (kv.value, kv.create_rev) == (b"old", old)
            watch = await record(backend, middle)
            await watch.until(a3)
            assert [(e.rev, e.prev_rev, e.prev_value) for e in watch.events] == [(a3, a2, b"2")]
            assert not await backend.check()

    async def test_c1_compaction_only_goes_forward(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            rev = 0
            for number in range(10):
                rev = (await backend.put("/t/a", b"%d" % number, expect=rev)).rev
            await backend.compact(rev - 3)
            for stale in (0, rev - 5, rev - 3):
                behind = await refused(backend.compact(stale), Compacted)
                assert behind.compact_rev == rev - 3
            ahead = await refused(backend.compact(rev + 1000), FutureRevision)
            assert ahead.current_rev >= rev
            await backend.compact(rev)
            kv, _ = await backend.get("/t/a", rev=rev)
            assert kv is not None
            assert kv.value == b"9"
            assert not await backend.check()

    async def test_c1_compaction_is_remembered(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            if not backend.caps.durable:
                return
            await mutate_at_random(backend, 5, 200)
            rev = await backend.current_rev()
            await backend.compact(rev)
            page = await backend.list(START, END)
        async with self.opened(tmp_path) as backend:
            assert await backend.compact_rev() == rev
            assert (await backend.list(START, END, rev=rev)).kvs == page.kvs
            await refused(backend.list(START, END, rev=rev - 1), Compacted)
            assert not await backend.check()

    async def test_c1_while_everybody_writes(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            writers = [asyncio.create_task(mutate_at_random(backend, seed, 150)) for seed in range(3)]
            while await running(writers):
                rev = await backend.current_rev()
                results = await asyncio.gather(backend.compact(rev), backend.compact(rev), return_exceptions=True)
                assert all(result is None or isinstance(result, Compacted) for result in results)
                await backend.list(START, END)
            await asyncio.gather(*writers)
            assert not await backend.check()

    @two_servers
    async def test_c1_another_server_learns_of_it(self, tmp_path: Path) -> None:
        async with self.pair(tmp_path) as (first, second):
            rev = (await first.put("/t/a", b"1", expect=0)).rev
            rev = (await first.put("/t/a", b"2", expect=rev)).rev
            watch = await record(second, rev - 1)
            # A watch that begins above what its server has read so far may still be sent it, without a gap.
            await watch.until(rev)
            await first.compact(rev)
            assert await second.compact_rev() == rev
            late = await record(second, rev - 1)
            assert isinstance(await late.until_failed(), Compacted)
            assert watch.error is None


class ExpiryContract(Suite):
    """T1, and the ends of a backend's life."""

    async def test_t1_a_key_vanishes_with_an_ordinary_event(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        async with self.opened(tmp_path, clock) as backend:
            watch = await record(backend, await backend.current_rev())
            short = (await backend.put("/t/short", b"s", expect=0, ttl_ms=1_000)).rev
            await backend.put("/t/long", b"l", expect=0, ttl_ms=60_000)
            await backend.put("/t/ever", b"e", expect=0, ttl_ms=None)
            kv, _ = await backend.get("/t/short")
            assert kv is not None
            assert kv.expires == int(clock.now() * 1000) + 1_000
            clock.advance(0.999)
            await self.expire(backend)
            assert len((await backend.list(START, END)).kvs) == 3, "a key went before its time"
            clock.advance(0.001)
            await self.expire(backend)
            assert [kv.key for kv in (await backend.list(START, END)).kvs] == ["/t/ever", "/t/long"]
            await caught_up(backend, watch)
            last = watch.events[-1]
            assert (last.op, last.key, last.prev_rev, last.prev_value) == (Op.DELETE, "/t/short", short, b"s")
            assert short < last.rev <= await backend.current_rev()

    async def test_t1_an_update_keeps_changes_or_drops_it(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        async with self.opened(tmp_path, clock) as backend:
            revs = {}
            for name in ("keep", "longer", "shorter", "drop"):
                revs[name] = (await backend.put(f"/t/{name}", b"", expect=0, ttl_ms=10_000)).rev
            clock.advance(8)
            await backend.put("/t/keep", b"2", expect=revs["keep"])
            await backend.put("/t/longer", b"2", expect=revs["longer"], ttl_ms=10_000)
            await backend.put("/t/shorter", b"2", expect=revs["shorter"], ttl_ms=1)
            await backend.put("/t/drop", b"2", expect=revs["drop"], ttl_ms=None)
            await backend.put("/t/none", b"", expect=0)

            async def left() -> set[str]:
                await self.expire(backend)
                return {kv.key[3:] for kv in (await backend.list(START, END)).kvs}

            clock.advance(1)
            assert await left() == {"keep", "longer", "drop", "none"}
            clock.advance(2)
            assert await left() == {"longer", "drop", "none"}
            clock.advance(10)
            assert await left() == {"drop", "none"}
            assert not await backend.check()
            assert not await backend.check(quick=True)

    async def test_t1_a_new_key_of_the_same_name_does_not_inherit_it(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        async with self.opened(tmp_path, clock) as backend:
            rev = (await backend.put("/t/a", b"", expect=0, ttl_ms=1_000)).rev
            await backend.delete("/t/a", expect=rev)
            await backend.put("/t/a", b"again", expect=0)
            clock.advance(100)
            await self.expire(backend)
            kv, _ = await backend.get("/t/a")
            assert kv is not None
            assert kv.expires is None

    async def test_t1_any_server_expires_what_another_left(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        async with self.opened(tmp_path, clock) as backend:
            if not backend.caps.durable:
                return
            await asyncio.gather(*(backend.put(f"/t/{i}", b"", expect=0, ttl_ms=1_000) for i in range(700)))
        clock.advance(5)
        async with self.opened(tmp_path, clock) as backend:
            await self.expire(backend)
            assert (await backend.count(START, END))[0] == 0

    async def test_a_closed_store_says_so(self, tmp_path: Path) -> None:
        backend = self.backend(tmp_path, VirtualClock())
        await backend.start()
        await backend.put("/t/a", b"", expect=0)
        await backend.close()
        await backend.close()
        for call in (
            backend.put("/t/b", b"", expect=0),
            backend.delete("/t/a", expect=1),
            backend.get("/t/a"),
            backend.list(START, END),
            backend.current_rev(),
        ):
            error = await refused(call, Unavailable)
            assert "closed" in str(error)

    async def test_a_call_that_is_cancelled_harms_nobody(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            watch = await record(backend, await backend.current_rev())
            tasks = [asyncio.create_task(backend.put(f"/t/{i}", b"", expect=0)) for i in range(20)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(not isinstance(result, StorageError) for result in results)
            assert (await backend.put("/t/last", b"", expect=0)).ok
            await caught_up(backend, watch)
            live = {kv.key for kv in (await backend.list(START, END)).kvs}
            assert live == {event.key for event in watch.events}
            assert {f"/t/{i}" for i in range(1, 20, 2)} <= live
