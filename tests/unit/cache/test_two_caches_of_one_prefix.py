"""One prefix may be in the cache twice, described differently: a replaced definition is loaded beside the old one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.storage.backend import Compacted, Unavailable
from oarlock.storage.cache.entry import Entry

pytestmark = pytest.mark.anyio


def louder(key: str, value: bytes, rev: int, create_rev: int) -> Entry:
    name = key.rpartition("/")[2]
    return Entry(key, "", name, rev, create_rev, b"%s!@%d" % (value, rev))


def bodies(resource: Any) -> list[bytes]:
    return [entry.body for part in resource.snapshot().range(resource.prefix, resource.end) for entry in part]


async def test_both_follow_the_store_and_each_tells_its_own_watchers(world: Any, kit: Any) -> None:
    await world.write("a", "1")
    old = await world.load()
    before, after = kit.Heard(), kit.Heard()
    old.subscribe(world.cache.rev, before.deliver, before.closed)
    new = await world.cache.resource(kit.PREFIX, louder, kit.later)
    new.subscribe(world.cache.rev, after.deliver, after.closed)
    await world.write("b", "1")
    await world.erase("a")
    assert (bodies(old), bodies(new)) == ([b"1@3"], [b"1!@3"])
    assert before.texts == ["ADDED b 1@3", "DELETED a 1@4"]
    assert after.texts == ["ADDED b 1!@3", "DELETED a 1!@4"]


async def test_writes_while_the_second_is_loaded_are_in_both(world: Any, kit: Any) -> None:
    for n in range(5):
        await world.write(f"a{n}", "1")
    old = await world.load()
    heard = kit.Heard()
    old.subscribe(world.cache.rev, heard.deliver, heard.closed)

    async def meanwhile() -> None:
        world.backend.on_list = None
        await world.write("a0", "2")
        await world.erase("a4")
        await world.write("b", "1")
        assert len(heard.events) == 3, "the old one is told while the new one loads"

    world.backend.on_list = meanwhile
    new = await world.cache.resource(kit.PREFIX, louder, kit.later)
    assert [body.replace(b"!", b"") for body in bodies(new)] == bodies(old)
    late = kit.Heard()
    new.subscribe(6, late.deliver, late.closed)
    assert [event.rev for event in late.events] == [event.rev for event in heard.events] == [7, 8, 9]


async def test_dropping_one_leaves_the_other(world: Any, kit: Any) -> None:
    old = await world.load()
    new = await world.cache.resource(kit.PREFIX, louder, kit.later)
    heard, kept = kit.Heard(), kit.Heard()
    old.subscribe(world.cache.rev, heard.deliver, heard.closed)
    new.subscribe(world.cache.rev, kept.deliver, kept.closed)
    world.cache.drop(old)
    await world.write("a", "1")
    assert (heard.ended, heard.texts) == ([None], [])
    assert (kept.ended, kept.texts) == ([], ["ADDED a 1!@2"])
    assert world.cache.resources == (new,)


async def test_one_that_failed_to_load_leaves_the_other_as_it_was(world: Any, kit: Any) -> None:
    old = await world.load()
    heard = kit.Heard()
    old.subscribe(world.cache.rev, heard.deliver, heard.closed)

    async def fail() -> None:
        raise Unavailable("not now")

    world.backend.on_list = fail
    with pytest.raises(Unavailable):
        await world.cache.resource(kit.PREFIX, louder, kit.later)
    await world.write("a", "1")
    assert (old.ready, heard.texts, heard.ended) == (True, ["ADDED a 1@2"], [])
    assert world.cache.resources == (old,)
    assert world.cache._buffers == {}


async def test_a_retired_one_ends_its_watches_and_is_still_kept_current(world: Any, kit: Any) -> None:
    old = await world.load()
    heard, late = kit.Heard(), kit.Heard()
    old.subscribe(world.cache.rev, heard.deliver, heard.closed)
    old.retire()
    old.subscribe(world.cache.rev, late.deliver, late.closed)
    await world.write("a", "1")
    assert (heard.ended, late.ended) == ([None], [None])
    assert (heard.events, late.events) == ([], [])
    assert (old.ready, bodies(old)) == (True, [b"1@2"])


async def test_both_are_loaded_again_when_the_place_in_the_store_is_lost(world: Any, kit: Any) -> None:
    old = await world.load()
    new = await world.cache.resource(kit.PREFIX, louder, kit.later)
    world.backend.break_watch(Compacted(1, 1))
    await world.write("a", "1")
    for _ in range(200):
        if old.ready and new.ready and world.cache.rev == 2:
            break
        await asyncio.sleep(0.001)
    await world.write("b", "1")
    assert (bodies(old), bodies(new)) == ([b"1@2", b"1@3"], [b"1!@2", b"1!@3"])
