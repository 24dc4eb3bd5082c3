"""L1–L4: a list is one snapshot, at an exact revision if asked, in pages if asked.

See also: `watches`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from oarlock.server.serving.eager import run_eagerly
from oarlock.storage.backend import Backend, Compacted, FutureRevision, Page, Rev
from oarlock.testing.contracts.support import END, START, Suite, mutate_at_random, refused, running

__all__ = ["ListContract"]


class ListContract(Suite):
    """L1–L4."""

    def test_l1_a_list_is_one_snapshot_in_byte_order(self, tmp_path: Path) -> None:
        async def scenario() -> None:
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

        asyncio.run(scenario())

    def test_l2_a_list_at_a_revision_is_the_state_there(self, tmp_path: Path) -> None:
        async def scenario() -> None:
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

        asyncio.run(scenario())

    def test_l2_reads_may_begin_where_no_task_runs(self, tmp_path: Path) -> None:
        """A server runs a request without a task until it first waits."""

        async def scenario() -> None:
            async with self.opened(tmp_path) as backend:
                rev = (await backend.put("/t/a", b"1", expect=0)).rev
                await backend.put("/t/a", b"2", expect=rev)
                for read in (backend.list(START, END, rev=rev), backend.list(START, END)):
                    page = await _begun_without_task(read)
                    assert [kv.value for kv in page.kvs] == [b"1" if page.rev == rev else b"2"]

        asyncio.run(scenario())

    def test_l2_revisions_that_are_not_there(self, tmp_path: Path) -> None:
        async def scenario() -> None:
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

        asyncio.run(scenario())

    def test_l3_pages_at_a_revision_are_the_list_at_that_revision(self, tmp_path: Path) -> None:
        async def scenario() -> None:
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

        asyncio.run(scenario())

    def test_l3_the_first_page_tells_its_revision_and_what_is_left(self, tmp_path: Path) -> None:
        async def scenario() -> None:
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

        asyncio.run(scenario())

    def test_l4_a_range_is_exactly_its_range(self, tmp_path: Path) -> None:
        async def scenario() -> None:
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

        asyncio.run(scenario())


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
