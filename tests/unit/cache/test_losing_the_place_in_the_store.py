"""A watch that breaks is begun again unnoticed; a place that is gone makes everything load again, and says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.storage.backend import Compacted, StorageError, Unavailable
from oarlock.storage.cache.events import TooOld

pytestmark = pytest.mark.anyio


async def settled(world: Any) -> None:
    for _ in range(200):
        if world.cache._reloading is None and world.backend.known_rev() == world.cache.rev:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the cache doesn't come back")


async def test_a_broken_watch_is_begun_again_without_a_gap(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    await world.write("a", "1")
    world.backend.refuse = Unavailable("gone for a while")
    world.backend.break_watch(Unavailable("gone"))
    await world.write("a", "2")
    await asyncio.sleep(0.005)
    world.backend.refuse = None
    await world.write("a", "3")
    await settled(world)
    assert heard.texts == ["ADDED a 1@2", "MODIFIED a 2@3", "MODIFIED a 3@4"]
    assert heard.ended == []
    assert len(world.backend.watches) == 2


async def test_a_place_that_is_gone_ends_watches_and_loads_again(world: Any, kit: Any) -> None:
    things = await world.load()
    other = await world.cache.resource("/registry/example.com/others/", kit.describe, kit.later)
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    await world.write("a", "1")
    await world.write("b", "1")
    kept = things.get(kit.PREFIX + "b")
    world.backend.watches[-1].close()
    await world.write("a", "2")
    await world.erase("a")
    await world.write("c", "1")
    await world.write("x", "1", prefix=other.prefix)
    rev = await world.backend.current_rev()
    await world.backend.compact(rev)
    await world.cache._follower.begin(world.cache.rev)
    assert [type(why) for why in heard.ended] == [TooOld]
    assert heard.ended[0].oldest == rev
    assert not things.ready
    assert world.names() == ["a=1", "b=1"], "the old state, under its old revision"
    assert things.rev < rev
    with pytest.raises(Unavailable):
        things.subscribe(things.rev, heard.deliver, heard.closed)
    await settled(world)
    assert things.ready
    assert world.names() == ["b=1", "c=1"]
    assert things.get(kit.PREFIX + "b") is kept, "what is unchanged isn't described again"
    assert len(other) == 1
    assert things.oldest == rev
    with pytest.raises(TooOld):
        things.subscribe(rev - 1, heard.deliver, heard.closed)
    again = kit.Heard()
    things.subscribe(rev, again.deliver, again.closed)
    last = await world.write("a", "3")
    assert again.texts == [f"ADDED a 3@{last}"]
    assert len(heard.events) == 2


async def test_a_read_waits_for_the_reload(world: Any) -> None:
    await world.load()
    world.backend.break_watch(Compacted(1, 1))
    await world.write("a", "1")
    wait = world.cache.fresh()
    assert wait is not None
    await wait
    assert world.names() == ["a=1"]


async def test_the_old_state_keeps_its_old_revision_while_loading_again(world: Any, kit: Any) -> None:
    things = await world.load()
    shown: list[tuple[int, list[str]]] = []

    async def look() -> None:
        await world.write("a", str(len(shown)))
        await world.write("x", "1", prefix="/registry/example.com/others/")
        shown.append((world.cache.rev, world.names()))

    world.backend.on_list = look
    world.backend.break_watch(Compacted(1, 1))
    await asyncio.sleep(0.002)
    world.backend.on_list = None
    await settled(world)
    assert shown == [(1, [])]
    assert world.names() == ["a=0"]
    assert things.rev == await world.backend.current_rev()


async def test_losing_it_again_while_loading_again(world: Any, kit: Any) -> None:
    things = await world.load()
    times = iter(range(3))

    async def again() -> None:
        await world.write("a", "1")
        if next(times, None) is not None:
            world.backend.break_watch(Compacted(1, 1))

    world.backend.on_list = again
    world.backend.break_watch(Compacted(1, 1))
    await asyncio.sleep(0.005)
    world.backend.on_list = None
    await settled(world)
    assert things.ready
    assert len(things) == 1
    assert things.get(kit.PREFIX + "a").rev == await world.backend.current_rev()


async def test_losing_it_while_a_resource_is_loaded_for_the_first_time(world: Any, kit: Any) -> None:
    async def once() -> None:
        world.backend.on_list = None
        world.backend.break_watch(Compacted(1, 1))
        await world.write("b", "1")

    await world.write("a", "1")
    world.backend.on_list = once
    things = await world.load()
    await settled(world)
    await world.write("c", "1")
    assert world.names() == ["a=1", "b=1", "c=1"]
    heard = kit.Heard()
    things.subscribe(1, heard.deliver, heard.closed)
    assert [e.rev for e in heard.events] == [2, 3, 4]


async def test_the_store_being_away_while_loading_again_is_tried_again(world: Any, kit: Any) -> None:
    things = await world.load()
    times = iter(range(3))

    async def fail() -> None:
        if next(times, None) is not None:
            raise Unavailable("not yet")

    world.backend.on_list = fail
    world.backend.break_watch(Compacted(1, 1))
    await world.write("a", "1")
    await settled(world)
    assert things.get(kit.PREFIX + "a") is not None


async def test_another_history_under_the_same_revisions_is_not_mistaken_for_ours(world: Any, kit: Any) -> None:
    things = await world.load()
    await world.write("a", "1")
    before = things.get(kit.PREFIX + "a")
    world.backend._epoch = "restored"
    world.backend.break_watch(Compacted(1, 1))
    await settled(world)
    assert things.get(kit.PREFIX + "a") is not before


async def test_events_that_cannot_be_applied_make_it_load_again(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)

    def fail(event: Any, now: float) -> None:
        del things.apply
        raise RuntimeError("a bug")

    things.apply = fail
    await world.write("a", "1")
    assert [type(why) for why in heard.ended] == [TooOld]
    await settled(world)
    assert world.names() == ["a=1"]
    await world.write("a", "2")
    assert world.names() == ["a=2"]


async def test_a_deletion_that_cannot_be_shown_is_a_broken_one(world: Any, kit: Any) -> None:
    def lost(entry: Any, rev: int) -> Any:
        raise ValueError("not kept")

    things = await world.cache.resource(kit.PREFIX, kit.describe, lost)
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    world.backend.terse = True
    await world.write("ns/a", "1")
    await world.erase("ns/a")
    deleted = heard.events[1].entry
    assert (deleted.namespace, deleted.name, deleted.broken) == ("ns", "a", "ValueError: not kept")
    assert len(things) == 0


async def test_a_store_that_sends_no_previous_values_is_enough(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    world.backend.terse = True
    await world.write("a", "1")
    await world.write("a", "2")
    await world.erase("a")
    assert heard.texts[1:] == ["MODIFIED a 2@3", "DELETED a 2@4"]
    assert heard.events[1].previous.body == b"1@2"


async def test_a_withdrawn_resource_is_not_brought_back_by_a_reload(world: Any, kit: Any) -> None:
    things = await world.load()

    async def withdraw() -> None:
        world.backend.on_list = None
        world.cache.drop(world.cache.resources[0])

    world.backend.on_list = withdraw
    world.backend.break_watch(Compacted(1, 1))
    await settled(world)
    await world.write("a", "1")
    assert not things.ready
    assert world.cache.resources == ()
    assert world.cache._aside == {}


async def test_closing_ends_a_reload(world: Any) -> None:
    await world.load()
    world.backend.refuse = StorageError("never again")
    world.backend.break_watch(Compacted(1, 1))
    await asyncio.sleep(0.003)
    await world.cache.close()
    assert len(asyncio.all_tasks()) <= 3
