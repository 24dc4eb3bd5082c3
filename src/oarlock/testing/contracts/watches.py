"""V1–V5: a watch delivers everything after its revision, in order, once, without a gap, or says why it can't.

L1–L4: a list is one snapshot, at an exact revision or in pages on request. See also: `upkeep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from oarlock.server.serving.eager import run_eagerly
from oarlock.storage.backend import KV, Backend, Batch, Compacted, FutureRevision, Op, Page, Rev
from oarlock.testing.contracts.support import (
    END,
    START,
    Recorder,
    Suite,
    caught_up,
    eventually,
    fold,
    mutate_at_random,
    record,
    refused,
    running,
    two_servers,
)


class ListContract(Suite):
    """L1–L4."""

    async def test_l1_a_list_is_one_snapshot_in_byte_order(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            writers = [asyncio.create_task(_move_a_token(backend, i)) for i in range(3)]
            while await running(writers):
                page = await backend.list(START, END)
                assert all(kv.mod_rev <= page.rev for kv in page.kvs)
                keys = [kv.key for kv in page.kvs]
                assert keys == sorted(keys)
                # Each token is created at its next place before it is deleted at its last one.
                for i in range(3):
                    there = [key for key in keys if key.startswith(f"/t/{i}-")]
                    assert len(there) in (0, 1, 2), f"half of two states: {there}"
            await asyncio.gather(*writers)

    async def test_l2_a_list_at_a_revision_is_the_state_there(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            states: dict[Rev, list[tuple[str, bytes]]] = {await backend.current_rev(): []}
            live: dict[str, tuple[bytes, Rev]] = {}
            for number in range(60):
                key = f"/t/{number * 7 % 5}"
                if key in live and number % 3 == 0:
                    rev = (await backend.delete(key, expect=live.pop(key)[1])).rev
                else:
                    value = b"%d" % number
                    rev = (await backend.put(key, value, expect=live[key][1] if key in live else 0)).rev
                    live[key] = (value, rev)
                states[rev] = sorted((key, value) for key, (value, _) in live.items())
            for rev, state in states.items():
                page = await backend.list(START, END, rev=rev)
                assert (page.rev, [(kv.key, kv.value) for kv in page.kvs]) == (rev, state)
                for key in (f"/t/{i}" for i in range(5)):
                    kv, at = await backend.get(key, rev=rev)
                    assert (at, kv.value if kv else None) == (rev, dict(state).get(key))

    async def test_l2_reads_may_begin_where_no_task_runs(self, tmp_path: Path) -> None:
        """A server runs a request without a task until it first waits."""
        async with self.opened(tmp_path) as backend:
            rev = (await backend.put("/t/a", b"1", expect=0)).rev
            await backend.put("/t/a", b"2", expect=rev)
            for read in (backend.list(START, END, rev=rev), backend.list(START, END)):
                page = await _begun_without_task(read)
                assert [kv.value for kv in page.kvs] == [b"1" if page.rev == rev else b"2"]

    async def test_l2_revisions_that_are_not_there(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            first = (await backend.put("/t/a", b"1", expect=0)).rev
            second = (await backend.put("/t/a", b"2", expect=first)).rev
            for call in (
                backend.list(START, END, rev=second + 1000),
                backend.get("/t/a", rev=second + 1000),
            ):
                ahead = await refused(call, FutureRevision)
                assert ahead.current_rev >= second
            await backend.compact(second)
            for call in (backend.list(START, END, rev=first), backend.get("/t/a", rev=first)):
                behind = await refused(call, Compacted)
                assert behind.compact_rev == second
            assert len((await backend.list(START, END, rev=second)).kvs) == 1

    async def test_l3_pages_at_a_revision_are_the_list_at_that_revision(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            for number in range(25):
                await backend.put(f"/t/{number:02}", b"", expect=0)
            writing = asyncio.create_task(mutate_at_random(backend, 1, 300, keys=40))
            for limit in (1, 2, 7, 24, 25, 26, 1000):
                whole = await backend.list(START, END)
                first = await backend.list(START, END, rev=whole.rev, limit=limit)
                kvs, page = list(first.kvs), first
                while page.more:
                    assert page.count == len(whole.kvs) - len(kvs)
                    page = await backend.list(kvs[-1].key + "\0", END, rev=whole.rev, limit=limit)
                    assert page.rev == whole.rev
                    assert 0 < len(page.kvs) <= limit
                    kvs += page.kvs
                assert page.count == 0
                assert kvs == whole.kvs
            await writing

    async def test_l3_the_first_page_tells_its_revision_and_what_is_left(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            for number in range(5):
                last = await backend.put(f"/t/{number}", b"", expect=0)
            page = await backend.list(START, END, limit=2)
            assert [kv.key for kv in page.kvs] == ["/t/0", "/t/1"]
            assert (page.more, page.count, page.rev >= last.rev) == (True, 3, True)
            page = await backend.list(START, END, limit=5)
            assert (len(page.kvs), page.more, page.count) == (5, False, 0)
            assert (await backend.count(START, END))[0] == 5
            assert (await backend.count("/t/3", END))[0] == 2
            assert (await backend.count("/t/3", "/t/1"))[0] == 0

    async def test_l4_a_range_is_exactly_its_range(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            for key in ("/t/pods/a", "/t/pods/a/b", "/t/podsx/a", "/t/pods", "/t/pods-/a", "/t/pod/z"):
                rev = (await backend.put(key, b"", expect=0)).rev
            page = await backend.list("/t/pods/", "/t/pods0")
            assert [kv.key for kv in page.kvs] == ["/t/pods/a", "/t/pods/a/b"]
            page = await backend.list("/t/pods/", "/t/pods0", rev=rev)
            assert [kv.key for kv in page.kvs] == ["/t/pods/a", "/t/pods/a/b"]
            page = await backend.list("/t/pods/a", "/t/pods/a\0")
            assert [kv.key for kv in page.kvs] == ["/t/pods/a"]
            assert (await backend.get("/t/pods/"))[0] is None, "a read of one key takes no prefix"
            assert (await backend.list("/t/q", "/t/q")).kvs == []


async def _begun_without_task(read: Coroutine[Any, Any, Page]) -> Page:
    loop = asyncio.get_running_loop()
    begun: asyncio.Future[Page | asyncio.Task[Page]] = loop.create_future()

    def begin() -> None:
        try:
            begun.set_result(run_eagerly(read, loop))
        except Exception as error:
            begun.set_exception(error)

    loop.call_soon(begin)
    outcome = await begun
    return await outcome if isinstance(outcome, asyncio.Task) else outcome


async def _move_a_token(backend: Backend, number: int) -> None:
    rev = 0
    for step in range(40):
        creation = await backend.put(f"/t/{number}-{step % 7}", b"", expect=0)
        if rev:
            await backend.delete(f"/t/{number}-{(step - 1) % 7}", expect=rev)
        rev = creation.rev


def _state(kvs: list[KV]) -> dict[str, tuple[bytes, Rev]]:
    return {kv.key: (kv.value, kv.mod_rev) for kv in kvs}


class WatchContract(Suite):
    """V1–V5."""

    async def test_v1_a_list_and_the_events_after_it_are_the_later_list(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            await _hand_over([backend])

    @two_servers
    async def test_v1_also_among_servers(self, tmp_path: Path) -> None:
        async with self.pair(tmp_path) as both:
            await _hand_over(list(both))

    async def test_v1_the_past_is_replayed_and_the_present_follows(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            begin = await backend.current_rev()
            for start in range(0, 1300, 100):
                await asyncio.gather(*(backend.put(f"/t/{start + i}", b"", expect=0) for i in range(100)))
            writing = asyncio.create_task(mutate_at_random(backend, 3, 300))
            whole, part = await asyncio.gather(record(backend, begin), record(backend, begin, ("/t/7", "/t/8")))
            await writing
            final = await backend.list(START, END)
            await backend.request_progress()
            await whole.until(final.rev)
            await part.until(final.rev)
            assert fold({}, whole.events) == _state(list(final.kvs))
            assert part.events == [event for event in whole.events if "/t/7" <= event.key < "/t/8"]

    async def test_v1_only_the_range_is_delivered(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            begin = await backend.current_rev()
            live = await record(backend, begin, ("/t/pods/", "/t/pods0"))
            for key in ("/t/pods/a", "/t/podsx/a", "/t/pods", "/t/pods/b", "/t/pods0"):
                rev = (await backend.put(key, b"", expect=0)).rev
            late = await record(backend, begin, ("/t/pods/", "/t/pods0"))
            await backend.request_progress()
            await live.until(rev)
            await late.until(rev)
            for watch in (live, late):
                assert [event.key for event in watch.events] == ["/t/pods/a", "/t/pods/b"]

    @two_servers
    async def test_v1_a_watch_from_a_revision_others_have_reached(self, tmp_path: Path) -> None:
        """What another server wrote may be watched from before this server has heard of it: no event comes twice."""
        async with self.pair(tmp_path) as (first, second):
            for number in range(30):
                rev = (await first.put(f"/t/{number}", b"", expect=0)).rev
                watch = await record(second, rev)
                after = await first.put(f"/t/then{number}", b"", expect=0)
                await watch.until(after.rev)
                assert [event.rev for event in watch.events] == [after.rev]

    async def test_v1_the_event_of_each_write_comes_unasked_with_its_bytes(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            await _put_and_compare([backend])

    @two_servers
    async def test_v1_the_event_of_each_write_comes_unasked_also_beside_another_server(self, tmp_path: Path) -> None:
        async with self.pair(tmp_path) as both:
            await _put_and_compare(list(both))

    async def test_v2_events_carry_what_was_before(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            begin = await backend.current_rev()
            live = await record(backend, begin)
            one = (await backend.put("/t/a", b"1", expect=0)).rev
            two = (await backend.put("/t/a", b"2", expect=one)).rev
            three = (await backend.delete("/t/a", expect=two)).rev
            four = (await backend.put("/t/a", b"4", expect=0)).rev
            late = await record(backend, begin)
            await late.until(four)
            for watch in (live, late):
                assert [(e.rev, e.op, e.value, e.create_rev, e.prev_rev, e.prev_value) for e in watch.events] == [
                    (one, Op.CREATE, b"1", one, 0, None),
                    (two, Op.UPDATE, b"2", one, one, b"1"),
                    (three, Op.DELETE, None, one, two, b"2"),
                    (four, Op.CREATE, b"4", four, 0, None),
                ]

    async def test_v3_a_watch_from_forgotten_history_fails(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            begin = await backend.current_rev()
            revs = [(await backend.put(f"/t/{i}", b"", expect=0)).rev for i in range(5)]
            live = await record(backend, revs[-1])
            await backend.compact(revs[2])
            for after in (begin, revs[1]):
                failing = await record(backend, after)
                error = await failing.until_failed()
                assert isinstance(error, Compacted)
                assert error.compact_rev == revs[2]
                assert failing.events == []
            continuing = await record(backend, revs[2])
            last = (await backend.put("/t/last", b"", expect=0)).rev
            await continuing.until(last)
            await live.until(last)
            assert [event.rev for event in continuing.events] == [*revs[3:], last]
            assert [event.rev for event in live.events] == [last]

    async def test_v3_compaction_during_a_replay_leaves_no_hole(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            begin = await backend.current_rev()
            rev = 0
            revs = []
            for number in range(1500):
                rev = (await backend.put("/t/a", b"%d" % number, expect=rev)).rev
                revs.append(rev)
            replays = [asyncio.create_task(record(backend, begin)) for _ in range(4)]
            await asyncio.sleep(0)
            await backend.compact(revs[-2])
            for watch in await asyncio.gather(*replays):
                await watch.until_over(rev)
                got = [event.rev for event in watch.events]
                assert got == revs[: len(got)], "a hole instead of an error"
                assert len(got) == len(revs) or isinstance(watch.error, Compacted)

    async def test_v4_progress_comes_when_asked_for_and_after_the_events(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            watch = await record(backend, await backend.current_rev(), ("/t/quiet/", "/t/quiet0"))
            for number in range(5):
                rev = (await backend.put(f"/t/{number}", b"", expect=0)).rev
                await backend.request_progress()
                await watch.until(rev)
            batches: list[Batch] = []
            await backend.watch(
                START, END, after=await backend.current_rev(), deliver=batches.append, failed=lambda error: None
            )
            await backend.request_progress()
            await eventually(lambda: bool(batches), "progress must come even when nothing has changed")
            assert batches[-1].rev >= rev
            assert watch.events == []

    @two_servers
    async def test_v4_also_for_what_another_server_wrote(self, tmp_path: Path) -> None:
        async with self.pair(tmp_path) as (first, second):
            watch = await record(second, await second.current_rev())
            for number in range(20):
                rev = (await first.put(f"/t/{number}", b"", expect=0)).rev
                await second.request_progress()
                await watch.until(rev)
                assert watch.events[-1].rev == rev, "progress must come after the events"

    async def test_v5_a_closed_watch_gets_nothing_more(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            after = await backend.current_rev()
            other = await record(backend, after)
            closed = Recorder(after)
            watch = await backend.watch(START, END, after=after, deliver=closed.deliver, failed=closed.failed)
            first = await backend.put("/t/a", b"", expect=0)
            await closed.until(first.rev)
            watch.close()
            watch.close()
            last = await backend.put("/t/b", b"", expect=0)
            await other.until(last.rev)
            assert len(closed.events) == 1
            assert closed.error is None

    async def test_v5_a_watch_closed_while_it_is_told_is_told_no_more(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as backend:
            after = await backend.current_rev()
            closed = Recorder(after)
            watch = await backend.watch(START, END, after=after, deliver=closed.deliver, failed=closed.failed)
            counts: list[int] = []

            def close(batch: Batch) -> None:
                watch.close()
                counts.append(len(closed.events))

            await backend.watch(START, END, after=after, deliver=close, failed=lambda error: None)
            other = await record(backend, after)
            await asyncio.gather(*(backend.put(f"/t/{i}", b"", expect=0) for i in range(3)))
            await eventually(lambda: bool(counts), "a watch isn't told")
            await backend.put("/t/last", b"", expect=0)
            await caught_up(backend, other)
            assert len(closed.events) == counts[0]


async def _put_and_compare(backends: list[Backend]) -> None:
    async def write(backend: Backend, seen: Recorder, name: str) -> None:
        for number in range(30):
            value = f"value {name} {number}".encode()
            rev = (await backend.put(f"/t/{name}/{number}", value, expect=0)).rev
            await seen.until(rev)
            assert [event.value for event in seen.events if event.rev == rev] == [value]

    tasks = []
    for place, backend in enumerate(backends):
        seen = await record(backend, await backend.current_rev())
        tasks += [write(backend, seen, f"{place}-{client}") for client in range(5)]
    await asyncio.gather(*tasks)


async def _hand_over(backends: list[Backend]) -> None:
    """List, then watch from the list's revision, at random moments while everybody writes."""
    writers = [
        asyncio.create_task(mutate_at_random(backend, seed * 10 + place, 120))
        for place, backend in enumerate(backends)
        for seed in range(3)
    ]
    watches: list[tuple[dict[str, tuple[bytes, Rev]], Recorder]] = []
    while await running(writers):
        for backend in backends:
            page = await backend.list(START, END)
            if len(watches) < 40:
                watches.append((_state(list(page.kvs)), await record(backend, page.rev)))
    await asyncio.gather(*writers)
    final = await backends[0].list(START, END)
    for backend in backends:
        await backend.request_progress()
    for state, watch in watches:
        await watch.until(final.rev)
        assert fold(state, watch.events) == _state(list(final.kvs))
