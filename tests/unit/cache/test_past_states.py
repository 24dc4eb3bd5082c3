"""`snapshot_at` and `list_at`: exact revisions from memory as far as it reaches, else from the store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.storage.backend import Compacted, FutureRevision
from oarlock.storage.cache.follower import CacheLimits
from oarlock.storage.cache.watch_cache import WatchCache

pytestmark = pytest.mark.anyio


async def test_every_revision_the_ring_knows_can_be_seen_again(world: Any) -> None:
    things = await world.load()
    expected = {world.cache.rev: world.names()}
    for name, value in [("b", "1"), ("a", "1"), ("b", "2"), ("c", "1"), ("a", None), ("a", "3")]:
        rev = await (world.erase(name) if value is None else world.write(name, value))
        expected[rev] = sorted(
            f"{kv.key.rpartition('/')[2]}={kv.value.decode()}" for kv in world.backend._live.values()
        )
    for rev in [3, 5, 2, 7, 4, 1, 6, 3, 5]:
        snapshot = things.snapshot_at(rev)
        assert snapshot.rev == rev
        assert world.names(snapshot) == expected[rev], rev
    assert things.snapshot_at(8) is None
    assert things.snapshot_at(-1) is None


async def test_a_snapshot_is_of_its_moment(world: Any) -> None:
    things = await world.load()
    await world.write("a", "1")
    snapshot = things.snapshot()
    await world.write("a", "2")
    assert world.names(snapshot) == ["a=1"]
    assert things.snapshot_at(snapshot.rev)._root is snapshot._root, "the next page finds the same state"


async def test_a_change_elsewhere_makes_no_new_state(world: Any) -> None:
    things = await world.load()
    await world.write("a", "1")
    first = things.snapshot()
    rev = await world.write("x", "1", prefix="/registry/other/things/")
    second = things.snapshot()
    assert (first.rev, second.rev) == (rev - 1, rev)
    assert first._root is second._root


async def test_what_states_keep_alive_is_bounded_by_the_ring(world: Any, kit: Any) -> None:
    things = await world.restart(CacheLimits(ring_min=4, ring_max=4, roots=8))
    for n in range(50):
        await world.write("a", str(n))
        things.snapshot()
    assert len(things._state._roots) <= 5
    oldest = things.oldest
    assert oldest == world.cache.rev - 4
    assert world.names(things.snapshot_at(oldest)) == ["a=45"]
    assert things.snapshot_at(oldest - 1) is None
    assert [e.body async for e in listed(things, oldest - 1)] == [b"44@%d" % (oldest - 1)], "the store still has it"


async def listed(things: Any, rev: int) -> Any:
    for part in (await things.list_at(rev, things.prefix, things.end))[0]:
        for entry in part:
            yield entry


async def test_pages_of_one_revision_are_one_list(world: Any, kit: Any) -> None:
    things = await world.load()
    for n in range(10):
        await world.write(f"a{n}", "1")
    rev = world.cache.rev
    for fresh_process in (False, True):
        start, found = kit.PREFIX, []
        for remaining in (6, 2, 0):
            slices, more, left = await things.list_at(rev, start, kit.END, 4)
            entries = [entry for part in slices for entry in part]
            assert (more, left) == (remaining > 0, remaining)
            found += [f"{e.name}={e.body.decode()}" for e in entries]
            await world.write(f"a{len(found) - 1}x", "new")
            await world.write(f"a{len(found) - 1}", "changed")
            start = entries[-1].key + "\0"
        assert found == [f"a{n}=1@{n + 2}" for n in range(10)]
        if not fresh_process:
            things = await world.restart(CacheLimits(history_revs=0))
            assert things.snapshot_at(rev) is None


async def test_a_compacted_revision_is_refused_by_a_process_that_never_saw_it(world: Any, kit: Any) -> None:
    things = await world.load()
    first = await world.write("a", "1")
    await world.write("a", "2")
    await world.backend.compact(await world.backend.current_rev())
    assert (await things.list_at(first, kit.PREFIX, kit.END))[0][0][0].body == b"1@2", "this one remembers"
    things = await world.restart()
    with pytest.raises(Compacted):
        await things.list_at(first, kit.PREFIX, kit.END)


async def test_a_future_revision_is_waited_for_then_refused(world: Any, kit: Any) -> None:
    things = await world.load()
    listing = asyncio.ensure_future(things.list_at(world.cache.rev + 1, kit.PREFIX, kit.END))
    await asyncio.sleep(0)
    await world.write("a", "1")
    assert len((await listing)[0]) == 1
    with pytest.raises(FutureRevision):
        await things.list_at(world.cache.rev + 1, kit.PREFIX, kit.END)


async def test_too_far_back_is_the_stores_business(world: Any, kit: Any) -> None:
    await world.cache.close()
    world.cache = WatchCache(world.backend, clock=world.clock, limits=CacheLimits(undo=5))
    await world.cache.start()
    things = await world.load()
    for n in range(10):
        await world.write(f"a{n}", "1")
    assert things.snapshot_at(3) is None
    assert world.names(things.snapshot_at(7)) == [f"a{n}=1" for n in range(6)]
    assert world.names(things.snapshot_at(3)) == ["a0=1", "a1=1"], "not far from one that is held"
