"""Loading while the store is written to, and what a restart knows of the time before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.storage.backend import Unavailable
from oarlock.storage.cache.entry import TooOld
from oarlock.storage.cache.follower import CacheLimits

pytestmark = pytest.mark.anyio


async def test_writes_between_pages_are_neither_lost_nor_doubled(world: Any, kit: Any) -> None:
    for n in range(10):
        await world.write(f"a{n}", "1")
    writes = iter([("a0", "2"), ("a9", "2"), ("a95", "1"), ("a5", None), ("a00", "1"), ("a0", "3")])

    async def meanwhile() -> None:
        for name, value in writes:
            await (world.erase(name) if value is None else world.write(name, value))
            return

    world.backend.on_list = meanwhile
    things = await world.restart(CacheLimits(page=2))
    world.backend.on_list = None
    stored = sorted(world.backend._live)
    assert world.names() == [f"{key.rpartition('/')[2]}={world.backend._live[key].value.decode()}" for key in stored]
    assert [entry.key for entry in things._state.live.values() if things.get(entry.key) is not entry] == []
    heard = kit.Heard()
    things.subscribe(11, heard.deliver, heard.closed)
    assert [e.rev for e in heard.events] == list(range(12, world.cache.rev + 1))


async def test_a_restart_does_not_end_every_clients_watch(world: Any, kit: Any) -> None:
    await world.load()
    start = world.cache.rev
    await world.write("a", "1")
    await world.write("a", "2")
    await world.write("b", "1")
    await world.erase("a")
    await world.write("a", "3")
    things = await world.restart()
    assert things.oldest == 0
    heard = kit.Heard()
    things.subscribe(start, heard.deliver, heard.closed)
    assert heard.texts == ["ADDED a 1@2", "MODIFIED a 2@3", "ADDED b 1@4", "DELETED a 2@5", "ADDED a 3@6"]
    assert [e.previous and e.previous.rev for e in heard.events] == [None, 2, None, 3, None]
    assert heard.events[-1].entry is things.get(kit.PREFIX + "a"), "what is live is held once"
    assert world.names(things.snapshot_at(4)) == ["a=2", "b=1"]


async def test_resources_loaded_together_read_the_log_once(world: Any, kit: Any) -> None:
    prefixes = [f"/registry/example.com/kind{n}/" for n in range(20)]
    for value in ("1", "2"):
        for prefix in prefixes:
            await world.write("a", value, prefix=prefix)
    await world.write("a", "1")
    await world.load()
    begun = world.backend.begun
    loads = [*prefixes, prefixes[0]]
    async with world.cache.together(loads) as history:
        first, *rest = loads
        things = [await world.cache.resource(first, kit.describe, kit.later, history)]
        await world.write("b", "1", prefix=prefixes[0])
        await world.write("b", "1", prefix=prefixes[1])
        things += await asyncio.gather(
            *[world.cache.resource(prefix, kit.describe, kit.later, history) for prefix in rest]
        )
        assert world.backend.begun == begun + 1
        assert history._bytes == 0
        again = await world.cache.resource(prefixes[2], kit.describe, kit.later, history)
        assert world.backend.begun == begun + 2, "a third cache of the prefix reads the log itself"
    heard = []
    for one in (*things, again):
        assert one.oldest == 0
        heard.append(kit.Heard())
        one.subscribe(0, heard[-1].deliver, heard[-1].closed)
    events = [[(event.type, event.rev) for event in one.events] for one in heard]
    assert events[0] == events[20] == [("ADDED", 2), ("MODIFIED", 22), ("ADDED", 43)]
    assert events[1] == [("ADDED", 3), ("MODIFIED", 23), ("ADDED", 44)]
    assert events[21] == events[2] == [("ADDED", 4), ("MODIFIED", 24)]


async def test_the_history_of_all_that_is_loaded_together_is_bounded(world: Any, kit: Any) -> None:
    prefixes = [f"/registry/example.com/kind{n}/" for n in range(3)]
    for n in range(30):
        await world.write("a", str(n), prefix=prefixes[n % 3])
    await world.restart(CacheLimits(ring_max=5, ring_min=1))
    async with world.cache.together(prefixes) as history:
        things = [await world.cache.resource(prefix, kit.describe, kit.later, history) for prefix in prefixes]
    assert [one.oldest for one in things] == [26, 26, 26]
    assert [len(one._state.ring) for one in things] == [1, 2, 2]


async def test_after_a_broken_watch_over_the_log_each_resource_begins_at_its_list(world: Any, kit: Any) -> None:
    prefixes = [f"/registry/example.com/kind{n}/" for n in range(3)]
    for prefix in prefixes:
        await world.write("a", "1", prefix=prefix)
    await world.load()
    async with world.cache.together(prefixes) as history:
        first = await world.cache.resource(prefixes[0], kit.describe, kit.later, history)
        history._failed(Unavailable("gone"))
        others = [await world.cache.resource(prefix, kit.describe, kit.later, history) for prefix in prefixes[1:]]
    assert first.oldest == 0
    assert [one.oldest for one in others] == [world.cache.rev] * 2
    assert [len(one) for one in others] == [1, 1]


async def test_after_a_compaction_and_a_restart_older_places_are_too_old(world: Any, kit: Any) -> None:
    await world.load()
    await world.write("a", "1")
    compacted = await world.write("a", "2")
    last = await world.write("a", "3")
    await world.backend.compact(compacted)
    things = await world.restart()
    assert things.oldest == compacted
    with pytest.raises(TooOld):
        things.subscribe(compacted - 1, kit.Heard().deliver, kit.Heard().closed)
    heard = kit.Heard()
    things.subscribe(compacted, heard.deliver, heard.closed)
    assert heard.texts == [f"MODIFIED a 3@{last}"]
    assert heard.events[0].previous.body == b"2@%d" % compacted


async def test_history_is_bounded(world: Any, kit: Any) -> None:
    for n in range(50):
        await world.write("a", str(n))
    things = await world.restart(CacheLimits(history_revs=10))
    assert things.oldest == world.cache.rev - 10
    things = await world.restart(CacheLimits(ring_max=5, ring_min=1))
    assert things.oldest == world.cache.rev - 5
    await world.write("big", "x" * 100_000)
    await world.write("big", "y" * 100_000)
    things = await world.restart(CacheLimits(ring_bytes=150_000))
    assert things.oldest == world.cache.rev - 1


async def test_a_resource_without_history_begins_at_its_list(world: Any, kit: Any) -> None:
    await world.write("a", "1")
    await world.backend.compact(world.cache.rev)
    things = await world.load()
    assert things.oldest == world.cache.rev == things.rev
    assert things.ready


async def test_a_prefix_is_checked(world: Any, kit: Any) -> None:
    await world.load()
    for prefix in (
        "/registry/example.com/things",
        "/other/example.com/things/",
        "/registry/things/",
        "/registry/a/b/c/",
    ):
        with pytest.raises(ValueError, match="prefix"):
            await world.cache.resource(prefix, kit.describe, kit.later)
    assert [resource.prefix for resource in world.cache.resources] == [kit.PREFIX]


async def test_the_core_group_has_an_empty_name(world: Any, kit: Any) -> None:
    pods = await world.cache.resource("/registry//pods/", kit.describe, kit.later)
    await world.write("a", "1", prefix="/registry//pods/ns/")
    assert len(pods) == 1


async def test_a_resource_that_failed_to_load_can_be_loaded_again(world: Any, kit: Any) -> None:
    async def fail() -> None:
        raise Unavailable("not now")

    world.backend.on_list = fail
    with pytest.raises(Unavailable):
        await world.load()
    world.backend.on_list = None
    assert world.cache._buffers == {}
    await world.write("a", "1")
    assert len(await world.load()) == 1


async def test_a_resource_withdrawn_while_it_loads_is_not_put_in_place(world: Any, kit: Any) -> None:
    async def withdraw() -> None:
        world.backend.on_list = None
        world.cache.drop(world.cache.resources[0])

    world.backend.on_list = withdraw
    with pytest.raises(Exception, match="withdrawn"):
        await world.load()
    assert world.cache._buffers == {}
    assert world.cache.resources == ()


async def test_a_resource_dropped_and_loaded_again_while_it_loads(world: Any, kit: Any) -> None:
    async def exchange() -> None:
        world.backend.on_list = None
        world.cache.drop(world.cache.resources[0])
        await world.load()
        await world.write("b", "1")

    await world.write("a", "1")
    world.backend.on_list = exchange
    with pytest.raises(Exception, match="withdrawn"):
        await world.cache.resource(kit.PREFIX, kit.describe, kit.later)
    await world.write("c", "1")
    assert world.names() == ["a=1", "b=1", "c=1"]
    assert world.cache._buffers == {}


async def test_history_without_previous_values_begins_where_it_makes_sense(world: Any, kit: Any) -> None:
    world.backend.terse = True
    await world.write("a", "1")
    await world.write("b", "1")
    await world.backend.compact(2)
    await world.write("a", "2")
    await world.write("a", "3")
    await world.erase("b")
    await world.write("a", "4")
    await world.erase("a")
    things = await world.restart()
    heard = kit.Heard()
    things.subscribe(things.oldest, heard.deliver, heard.closed)
    assert heard.texts == ["MODIFIED a 3@5", "DELETED b 1@6", "MODIFIED a 4@7", "DELETED a 4@8"]


async def test_a_list_ahead_of_the_watch_waits_for_it(world: Any, kit: Any) -> None:
    world.backend.hold()
    await world.write("a", "1")
    loading = asyncio.ensure_future(world.load())
    await asyncio.sleep(0.003)
    assert not loading.done()
    world.backend.release()
    things = await loading
    heard = kit.Heard()
    things.subscribe(1, heard.deliver, heard.closed)
    assert heard.texts == ["ADDED a 1@2"]
    world.cache.drop(things)
    world.backend.hold()
    await world.write("a", "2")
    with pytest.raises(Unavailable, match="reported no events"):
        await world.load()


async def test_a_store_that_repeats_itself_is_heard_once(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    world.backend.hold()
    await world.write("a", "1")
    held = list(world.backend.held)
    world.backend.release()
    for deliver, batch in held:
        deliver(batch)
    assert heard.texts == ["ADDED a 1@2"]
    assert len(things._state.ring) == 1
