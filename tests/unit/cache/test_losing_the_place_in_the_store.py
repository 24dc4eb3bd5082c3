"""A watch that breaks is begun again unnoticed; a place that is gone makes everything load again, and says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.storage.backend import Compacted, FutureRevision, StorageError, Unavailable
from oarlock.storage.cache.entry import TooOld

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
    await world.cache._follower.begin(world.cache.rev, world.cache._epoch)
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


async def test_a_load_does_not_wait_for_events_that_are_not_coming(world: Any, kit: Any) -> None:
    """The new watch is lost too, before it told of what the load has listed: the load begins again at once."""
    await world.load()
    loop = asyncio.get_running_loop()
    real = world.backend.current_rev

    async def current_rev() -> int:
        world.backend.current_rev = real
        rev: int = await real()
        world.backend.hold()
        await world.write("a", "1")
        loop.call_later(0.001, world.backend.break_watch, Compacted(1, 1))
        loop.call_later(0.001, setattr, world.backend, "held", None)
        return rev

    world.backend.current_rev = current_rev
    begun = loop.time()
    world.backend.break_watch(Compacted(1, 1))
    await settled(world)
    assert world.names() == ["a=1"]
    assert loop.time() - begun < kit.QUICK.fresh_s


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


async def test_a_failover_that_lost_writes_ends_watches_and_shows_what_is_left(
    world: Any, kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    kept = await world.write("a", "1")
    await world.write("a", "2")
    lost = await world.write("b", "1")
    world.backend.lose_after(kept)
    assert [type(why) for why in heard.ended] == [TooOld]
    await settled(world)
    assert world.names() == ["a=1"]
    assert things.get(kit.PREFIX + "a").rev == kept
    assert things.oldest == world.cache.rev > lost
    with pytest.raises(TooOld):
        things.subscribe(lost, heard.deliver, heard.closed)
    assert f"has lost history after a failover or restore: it was at revision {lost}" in caplog.text
    again = kit.Heard()
    things.subscribe(world.cache.rev, again.deliver, again.closed)
    rev = await world.write("b", "2")
    assert again.texts == [f"ADDED b 2@{rev}"]


@pytest.mark.parametrize("watch", ["breaks", "stays open"])
async def test_a_store_that_goes_back_is_loaded_again(world: Any, kit: Any, watch: str) -> None:
    """A restored copy that uses its revisions again: not what the contract wants, and still not served as it was."""
    things = await world.load()
    await world.write("a", "1")
    await world.write("a", "2")
    last = await world.write("b", "1")
    world.backend.knows = False
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    copy = kit.Faulty(world.clock)
    await copy.put(kit.PREFIX + "a", b"copy", expect=0)
    for name in ("_epoch", "_rev", "_live", "_keys", "_log", "_history"):
        setattr(world.backend, name, getattr(copy, name))
    if watch == "breaks":
        world.backend.break_watch(Unavailable("the server was restarted"))
    await world.cache.fresh()
    assert world.names() == ["a=copy"]
    assert world.cache.rev == 2 < last
    assert [type(why) for why in heard.ended] == [TooOld]
    assert things.oldest == 2, "what was told before is not continued"
    await world.write("c", "1")
    assert world.names() == ["a=copy", "c=1"]


async def test_a_watch_begun_again_in_another_epoch_is_not_continued(world: Any, kit: Any) -> None:
    """The store was exchanged while the watch was away, and its counter has already passed where we were."""
    things = await world.load()
    await world.write("a", "1")
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    world.backend.refuse = Unavailable("gone for a while")
    world.backend.break_watch(Unavailable("gone"))
    await world.write("b", "1")
    world.backend._epoch = "restored"
    world.backend.refuse = None
    await settled(world)
    assert [type(why) for why in heard.ended] == [TooOld]
    assert world.names() == ["a=1", "b=1"]


async def test_a_store_that_does_not_tell_its_epoch_is_asked_again(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    real, times = world.backend.epoch, iter(range(2))

    async def epoch() -> str:
        if next(times, None) is not None:
            raise Unavailable("not yet")
        answer: str = await real()
        return answer

    world.backend.epoch = epoch
    world.backend.break_watch(Unavailable("gone"))
    await asyncio.sleep(0.02)
    assert [watch.closed for watch in world.backend.watches] == [True, True, True, False], "never two at once"
    await world.write("a", "1")
    assert heard.texts == ["ADDED a 1@2"]
    assert heard.ended == []


async def test_a_watch_that_stands_still_is_begun_again(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    world.backend.knows = False
    world.backend.hold()
    await world.write("a", "1")
    with pytest.raises(Unavailable, match="doesn't catch up"):
        await world.cache.fresh()
    world.backend.held = None  # what was held is lost, as in a connection that nobody ends
    await world.cache.fresh()
    world.backend.hold()
    await things.writes.put(kit.PREFIX + "b", b"1", expect=0)
    world.backend.held = None
    await world.cache.fresh()
    assert heard.texts == ["ADDED a 1@2", "ADDED b 1@3"]
    assert heard.ended == []
    assert len(world.backend.watches) == 3


async def test_a_revision_a_client_made_up_does_not_disturb_the_watch(world: Any) -> None:
    await world.load()
    with pytest.raises(FutureRevision):
        await world.cache.wait_for(10_000, 0.05)
    assert len(world.backend.watches) == 1


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
    assert world.cache._buffers == {}


async def test_closing_ends_a_reload(world: Any) -> None:
    await world.load()
    world.backend.refuse = StorageError("never again")
    world.backend.break_watch(Compacted(1, 1))
    await asyncio.sleep(0.003)
    await world.cache.close()
    assert len(asyncio.all_tasks()) <= 3
