"""What a watcher hears: everything after its revision, once, in order, until it is told why it ends."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import pytest

from oarlock.storage.cache.entry import CacheEvent, Subscription, TooOld

pytestmark = pytest.mark.anyio


async def test_known_events_come_before_subscribe_returns_and_others_as_they_happen(world: Any, kit: Any) -> None:
    things = await world.load()
    rev = await world.write("a", "1")
    await world.write("b", "1")
    heard = kit.Heard()
    things.subscribe(rev, heard.deliver, heard.closed)
    assert heard.texts == ["ADDED b 1@3"]
    await world.write("b", "2")
    await world.erase("a")
    assert heard.texts[1:] == ["MODIFIED b 2@4", "DELETED a 1@5"]
    assert heard.events[1].previous.rev == 3
    assert heard.events[2].previous.rev == rev, "a deletion has the revision of the deletion, and the entry before"
    assert heard.ended == []


async def test_a_place_that_is_forgotten_is_too_old(world: Any, kit: Any) -> None:
    things = await world.load()
    for n in range(300):
        world.clock.time += 100.0
        await world.write("a", str(n))
    heard = kit.Heard()
    with pytest.raises(TooOld) as error:
        things.subscribe(things.oldest - 1, heard.deliver, heard.closed)
    assert error.value.oldest == things.oldest
    things.subscribe(things.oldest, heard.deliver, heard.closed)
    assert [e.rev for e in heard.events] == list(range(things.oldest + 1, world.cache.rev + 1))


async def test_a_place_ahead_of_this_process_hears_nothing_twice(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev + 2, heard.deliver, heard.closed)
    for value in "1234":
        await world.write("a", value)
    assert [e.rev for e in heard.events] == [4, 5]


async def test_closing_while_being_delivered_stops_at_once(world: Any, kit: Any) -> None:
    things = await world.load()
    second = kit.Heard()
    subscriptions: list[Subscription] = []

    def close_the_other(events: Any) -> None:
        subscriptions[1].close()
        subscriptions[1].close()

    subscriptions.append(things.subscribe(world.cache.rev, close_the_other, lambda why: None))
    subscriptions.append(things.subscribe(world.cache.rev, second.deliver, second.closed))
    await world.write("a", "1")
    assert second.events == []
    assert second.ended == [], "who closes knows"


async def test_a_closed_subscription_holds_no_watcher(world: Any, kit: Any) -> None:
    """A watcher holds its subscription: if that held the watcher too, only the collector would free them."""
    things = await world.load()
    heard = kit.Heard()
    subscription = things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    watcher = weakref.ref(heard)
    subscription.close()
    del heard
    assert watcher() is None


async def test_subscribing_while_being_delivered_misses_and_doubles_nothing(world: Any, kit: Any) -> None:
    things = await world.load()
    start = world.cache.rev
    late = kit.Heard()

    def subscribe(events: list[CacheEvent]) -> None:
        if not late.events:
            things.subscribe(start, late.deliver, late.closed)

    things.subscribe(start, subscribe, lambda why: None)
    await world.write("a", "1")
    await world.write("a", "2")
    assert late.texts == ["ADDED a 1@2", "MODIFIED a 2@3"]


async def test_when_told_of_a_change_the_cache_has_it(world: Any) -> None:
    things = await world.load()
    seen: list[tuple[int, bytes]] = []

    def look(events: list[CacheEvent]) -> None:
        seen.append((things.rev, things.get(events[0].entry.key).body))

    things.subscribe(world.cache.rev, look, lambda why: None)
    rev = await world.write("a", "1")
    assert seen == [(rev, b"1@%d" % rev)]


async def test_a_watcher_that_raises_is_ended_and_the_others_go_on(world: Any, kit: Any) -> None:
    things = await world.load()
    good, bad = kit.Heard(), kit.Heard()

    def fail(events: Any) -> None:
        raise RuntimeError("oops")

    things.subscribe(world.cache.rev, fail, bad.closed)
    things.subscribe(world.cache.rev, good.deliver, good.closed)
    await world.write("a", "1")
    await world.write("a", "2")
    assert [str(why) for why in bad.ended] == ["oops"]
    assert len(good.events) == 2


async def test_a_withdrawn_resource_ends_its_watches_with_none(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    world.cache.drop(things)
    world.cache.drop(things)
    await world.write("a", "1")
    assert heard.ended == [None]
    assert heard.events == []
    late = kit.Heard()
    things.subscribe(world.cache.rev, late.deliver, late.closed)
    assert late.ended == [None], "who comes too late is ended as those that were there"
    again = await world.load()
    assert again is not things
    assert len(again) == 1


async def test_closing_the_cache_ends_them_too(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    await world.cache.close()
    await world.cache.close()
    assert heard.ended == [None]


async def test_other_resources_and_foreign_keys_are_not_heard_of(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    for foreign in ("/registry/example.com/thingsy/", "/registry/other/things/", "/other/", "/registry/"):
        await world.write("a", "1", prefix=foreign)
    rev = await world.write("a", "1", prefix="/zzz")
    assert heard.events == []
    assert world.cache.rev == rev


async def test_a_long_batch_is_applied_over_several_turns(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    world.backend.watches[-1].close()
    for n in range(1000):
        await world.write(f"a{n:04}", "1")
    await world.cache._follower.begin(world.cache.rev, world.cache._epoch)
    assert len(heard.events) == world.limits.slice_events, "the first bite at once"
    rev = await world.write("last", "1")
    assert world.cache.rev < rev
    await world.cache.wait_for(rev)
    assert [e.rev for e in heard.events] == list(range(2, rev + 1))
    assert max(heard.batches) <= world.limits.slice_events


async def test_waiting_for_a_watch_to_end_needs_no_task(world: Any, kit: Any) -> None:
    things = await world.load()
    before = len(asyncio.all_tasks())
    for _ in range(100):
        things.subscribe(world.cache.rev, kit.Heard().deliver, kit.Heard().closed)
    assert len(asyncio.all_tasks()) == before
