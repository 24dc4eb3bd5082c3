"""R1–R4 and W1–W5: revisions, and writes that compare before they swap.

See also: `lists`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from oarlock.storage.backend import KV, Backend, Compacted, TooLarge
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
    that_loses,
    two_servers,
)


class RevisionContract(Suite):
    """R1–R4."""

    async def test_r1_every_write_gets_a_larger_revision_of_its_own(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        async with self.opened(tmp_path, clock) as backend:
            assert await backend.current_rev() >= 1, "0 means 'any' to a client: an empty store is above it"
            assert (await backend.list(START, END)).rev >= 1
            watch = await record(backend, await backend.current_rev(), ("/", "0"))
            revs = [await backend.current_rev()]
            revs.append((await backend.put("/t/a", b"1", expect=0)).rev)
            revs.append((await backend.put("/t/b", b"1", expect=0, ttl_ms=1000)).rev)
            revs.append((await backend.put("/t/a", b"2", expect=revs[1])).rev)
            revs.append((await backend.delete("/t/a", expect=revs[3])).rev)
            clock.advance(2)
            await self.expire(backend)
            revs.append(await backend.current_rev())
            assert revs == sorted(set(revs)), "revisions must grow with every write, also with an expiry"
            many = await asyncio.gather(*(backend.put(f"/t/m{i}", b"", expect=0) for i in range(50)))
            assert len({result.rev for result in many}) == 50, "two keys share a revision"
            await caught_up(backend, watch)
            assert len({event.rev for event in watch.events}) == len(watch.events) >= 55

    async def test_r2_what_a_reader_saw_is_never_completed_later(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            after = await backend.current_rev()
            watch = await record(backend, after)
            writers = [asyncio.create_task(mutate_at_random(backend, seed, 60)) for seed in range(5)]
            pages = []
            while await running(writers):
                pages.append(await backend.list(START, END))
            await asyncio.gather(*writers)
            await caught_up(backend, watch)
            for page in pages:
                assert page.kvs == (await backend.list(START, END, rev=page.rev)).kvs, f"{page.rev} changed later"
                latest = {event.key: event for event in watch.events if event.rev <= page.rev}
                live = {key: event.rev for key, event in latest.items() if event.value is not None}
                assert live == {kv.key: kv.mod_rev for kv in page.kvs}

    async def test_r3_no_revision_is_used_twice(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            epoch, durable = await backend.epoch(), backend.caps.durable
            first = await backend.put("/t/a", b"1", expect=0)
            last = (await backend.delete("/t/a", expect=first.rev)).rev
        async with self.opened(tmp_path) as backend:
            if durable:
                assert await backend.epoch() == epoch
                assert await backend.current_rev() >= last
                assert (await backend.put("/t/a", b"1", expect=0)).rev > last
            else:
                assert await backend.epoch() != epoch, "a store that forgets must say so"

    @that_loses
    async def test_r3_lost_history_is_another_epoch_and_its_revisions_are_not_used_again(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            epoch = await backend.epoch()
            kept = (await backend.put("/t/a", b"1", expect=0)).rev
            lost = (await backend.put("/t/a", b"2", expect=kept)).rev
            last = (await backend.put("/t/b", b"1", expect=0)).rev
            watch = await record(backend, lost)
            await watch.until(last)
            await self.lose_after(backend, kept)
            assert isinstance(await watch.until_failed(), Compacted)
            assert await backend.epoch() != epoch
            assert await backend.current_rev() >= last
            assert await backend.compact_rev() >= last, "whoever knows what was lost must hear of it"
            page = await backend.list(START, END)
            assert [(kv.key, kv.value, kv.mod_rev) for kv in page.kvs] == [("/t/a", b"1", kept)]
            for stale in (kept, lost, last - 1):
                await refused(backend.list(START, END, rev=stale), Compacted)
                late = await record(backend, stale)
                assert isinstance(await late.until_failed(), Compacted)
            assert (await backend.put("/t/b", b"2", expect=0)).rev > last
            assert not (await backend.put("/t/a", b"3", expect=lost)).ok
            assert not await backend.check()

    async def test_r4_reads_see_what_was_written_before_they_began(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            for number in range(50):
                await _reads_see_a_write(backend, backend, number)

    @two_servers
    async def test_r4_also_from_another_server(self, tmp_path: Path) -> None:
        async with self.pair(tmp_path) as (first, second):
            for number in range(100):
                await _reads_see_a_write(first, second, number)
                await _reads_see_a_write(second, first, 1000 + number)

    async def test_r4_a_read_never_runs_ahead_of_the_counter(self, tmp_path: Path) -> None:
        """After a client has read revision R, the current revision must not be smaller."""
        async with self.opened(tmp_path) as backend:
            writers = [asyncio.create_task(mutate_at_random(backend, seed, 100)) for seed in range(3)]
            while await running(writers):
                _, rev = await backend.get("/t/1")
                known_rev = backend.known_rev()
                assert known_rev is None or known_rev >= rev
                assert await backend.current_rev() >= rev
            await asyncio.gather(*writers)


async def _reads_see_a_write(writer: Backend, reader: Backend, number: int) -> None:
    key = f"/t/{number}"
    rev = (await writer.put(key, b"1", expect=0)).rev
    known_rev = reader.known_rev()
    assert known_rev is None or known_rev >= rev, f"known_rev says {known_rev} after {rev} was acknowledged"
    assert await reader.current_rev() >= rev
    kv, at = await reader.get(key)
    assert kv is not None
    assert at >= rev
    page = await reader.list(key, key + "\0")
    assert [kv.mod_rev for kv in page.kvs] == [rev]
    assert page.rev >= rev
    keys, at = await reader.count(key, key + "\0")
    assert (keys, at >= rev) == (1, True)


class WriteContract(Suite):
    """W1–W5."""

    async def test_w1_one_of_many_creates_wins(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            await _race([backend])

    @two_servers
    async def test_w1_also_among_servers(self, tmp_path: Path) -> None:
        async with self.pair(tmp_path) as both:
            await _race(list(both))

    async def test_w2_a_write_succeeds_only_on_the_revision_it_expects(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            absent = await backend.put("/t/a", b"1", expect=7)
            assert (absent.ok, absent.current) == (False, None)
            assert not (await backend.delete("/t/a", expect=7)).ok
            assert not (await backend.delete("/t/a", expect=0)).ok, "there is nothing to delete"
            one = await backend.put("/t/a", b"1", expect=0)
            two = await backend.put("/t/a", b"2", expect=one.rev)
            current = KV("/t/a", b"2", two.rev, one.rev)
            for stale in (0, one.rev, two.rev + 100):
                for failed in (
                    await backend.put("/t/a", b"3", expect=stale),
                    await backend.delete("/t/a", expect=stale),
                ):
                    assert (failed.ok, failed.current) == (False, current)
                    assert failed.rev >= two.rev
            deletion = await backend.delete("/t/a", expect=two.rev)
            assert (deletion.ok, deletion.current) == (True, current)
            assert (await backend.put("/t/a", b"3", expect=two.rev)).current is None

    async def test_w2_among_concurrent_updates_of_one_revision_one_wins(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            rev = (await backend.put("/t/a", b"0", expect=0)).rev
            for _ in range(10):
                racers = [backend.put("/t/a", str(i).encode(), expect=rev) for i in range(8)]
                results = await asyncio.gather(*racers, backend.delete("/t/other", expect=rev))
                (won,) = [result for result in results if result.ok]
                rev = won.rev
                for loser in results[:-1]:
                    assert loser.ok or (loser.current is not None and loser.current.mod_rev == rev)

    async def test_w3_the_revision_of_creation_is_kept_until_deletion(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            one = await backend.put("/t/a", b"1", expect=0)
            two = await backend.put("/t/a", b"2", expect=one.rev)
            kv, _ = await backend.get("/t/a")
            assert kv == KV("/t/a", b"2", two.rev, one.rev)
            deletion = await backend.delete("/t/a", expect=two.rev)
            assert deletion.rev > two.rev
            again = await backend.put("/t/a", b"3", expect=0)
            kv, _ = await backend.get("/t/a")
            assert kv == KV("/t/a", b"3", again.rev, again.rev)

    async def test_w3_a_deletion_and_a_creation_at_once(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            rev = (await backend.put("/t/a", b"1", expect=0)).rev
            deletion, creation = await asyncio.gather(
                backend.delete("/t/a", expect=rev), backend.put("/t/a", b"2", expect=0)
            )
            assert deletion.ok
            kv, _ = await backend.get("/t/a")
            assert (kv is not None) == creation.ok
            assert kv is None or kv.create_rev == kv.mod_rev == creation.rev
            assert not await backend.check()

    async def test_w4_what_was_acknowledged_is_there_after_reopening(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            if not backend.caps.durable:
                return
            results = await asyncio.gather(*(backend.put(f"/t/{i}", b"%d" % i, expect=0) for i in range(100)))
            late = asyncio.create_task(backend.put("/t/late", b"", expect=0))
            await asyncio.sleep(0)
        late_result = await late
        async with self.opened(tmp_path) as backend:
            page = await backend.list(START, END)
            assert {kv.key: kv.mod_rev for kv in page.kvs} == {
                **{f"/t/{i}": result.rev for i, result in enumerate(results)},
                "/t/late": late_result.rev,
            }
            assert not await backend.check()

    async def test_w5_any_bytes_and_long_keys(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            values = {
                "/t/empty": b"",
                "/t/all": bytes(range(256)) * 3,
                "/t/nul": b"\0",
                "/t/text": "🦀 not ascii".encode(),
                "/t/" + "k" * 627: b"long",
                "/t/" + "k" * 2000: b"longer",
                "/t/ключ/鍵": b"unicode",
                "/t/'; DROP TABLE log; --": b"quoted",
                "/t/%_*?[a-z]": b"patterns",
            }
            for key, value in values.items():
                assert (await backend.put(key, value, expect=0)).ok
            for key, value in values.items():
                kv, _ = await backend.get(key)
                assert kv is not None
                assert (kv.key, kv.value) == (key, value)
            keys = [kv.key for kv in (await backend.list(START, END)).kvs]
            assert keys == sorted(values, key=str.encode), "keys are ordered by their bytes"

    async def test_w5_an_empty_value_is_a_value(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            watch = await record(backend, await backend.current_rev())
            rev = (await backend.put("/t/a", b"", expect=0)).rev
            rev = (await backend.put("/t/a", b"", expect=rev)).rev
            await backend.delete("/t/a", expect=rev)
            await caught_up(backend, watch)
            assert [(event.value, event.prev_value) for event in watch.events] == [
                (b"", None),
                (b"", b""),
                (None, b""),
            ]

    async def test_w5_a_value_above_the_limit_is_refused(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            limit = backend.caps.max_value
            assert (await backend.put("/t/fits", b"x" * limit, expect=0)).ok
            error = await refused(backend.put("/t/big", b"x" * (limit + 1), expect=0), TooLarge)
            assert error.limit == limit
            assert (await backend.get("/t/big"))[0] is None
            assert (await backend.put("/t/after", b"", expect=0)).ok


async def _race(backends: list[Backend]) -> None:
    for number in range(10):
        key = f"/t/{number}"
        values = [f"{i}".encode() for i in range(12)]
        results = await asyncio.gather(
            *(backends[i % len(backends)].put(key, value, expect=0) for i, value in enumerate(values))
        )
        ((winner, won),) = [(i, result) for i, result in enumerate(results) if result.ok]
        winner_kv = KV(key, values[winner], won.rev, won.rev)
        assert [result.current for result in results if not result.ok] == [winner_kv] * 11
