"""Writes go through the cache: applied before they return, described once, by who knows the object."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.storage.backend import OutcomeUnknown
from oarlock.storage.cache.entry import Entry

pytestmark = pytest.mark.anyio


async def test_a_written_object_is_read_at_once(world: Any, kit: Any) -> None:
    things = await world.load()
    key = kit.PREFIX + "a"
    result, entry = await things.writes.put(key, b"1", expect=0)
    assert result.ok
    assert entry is things.get(key)
    assert (entry.rev, entry.create_rev, entry.body) == (result.rev, result.rev, b"1@2")
    result, entry = await things.writes.put(key, b"2", expect=result.rev)
    assert (entry.rev, entry.create_rev) == (3, 2)
    deleted = await things.writes.delete(key, expect=entry.rev)
    assert deleted.ok
    assert things.get(key) is None
    assert world.cache.rev == deleted.rev


async def test_a_lost_race_returns_what_is_there(world: Any, kit: Any) -> None:
    things = await world.load()
    rev = await world.write("a", "1")
    result, entry = await things.writes.put(kit.PREFIX + "a", b"2", expect=0)
    assert (result.ok, entry) == (False, None)
    assert result.current.mod_rev == rev
    assert not (await things.writes.delete(kit.PREFIX + "a", expect=99)).ok
    assert things.writes.pending == {}


async def test_a_draft_saves_describing(world: Any, kit: Any) -> None:
    described: list[str] = []

    def describe(key: str, value: bytes, rev: int, create_rev: int) -> Entry:
        described.append(key)
        return kit.describe(key, value, rev, create_rev)

    things = await world.cache.resource(kit.PREFIX, describe, kit.later)
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    key = kit.PREFIX + "a"
    made: list[Entry] = []

    def draft(rev: int, create_rev: int) -> Entry:
        made.append(kit.describe(key, b"1", rev, create_rev))
        return made[-1]

    _, entry = await things.writes.put(key, b"1", expect=0, draft=draft)
    assert described == []
    assert entry is made[0] is things.get(key) is heard.events[0].entry
    await world.write("a", "1")
    assert described == [key], "another's write is described"


async def test_two_writers_of_a_key_get_their_own_entries(world: Any, kit: Any) -> None:
    things = await world.load()
    key = kit.PREFIX + "a"
    rev = await world.write("a", "0")
    results = await asyncio.gather(
        *(
            things.writes.put(key, b"%d" % n, expect=rev, draft=lambda r, c, n=n: kit.describe(key, b"%d" % n, r, c))
            for n in "12"
            for n in (int(n),)
        )
    )
    won = [(result, entry) for result, entry in results if result.ok]
    assert len(won) == 1
    result, entry = won[0]
    assert entry.body == things.get(key).body == b"%s@%d" % (kit.restore(entry), result.rev)
    assert things.writes.pending == {}


async def test_an_overtaken_write_still_returns_what_it_wrote(world: Any, kit: Any) -> None:
    things = await world.load()
    key = kit.PREFIX + "a"
    world.backend.hold()
    writing = asyncio.ensure_future(things.writes.put(key, b"1", expect=0))
    await asyncio.sleep(0)
    second = await world.write("a", "2")
    assert not writing.done(), "not before the cache has it"
    world.backend.release()
    result, entry = await writing
    assert (entry.rev, entry.body) == (result.rev, b"1@2")
    assert things.get(key).rev == second


async def test_the_same_bytes_written_again_by_another_are_another_write(world: Any, kit: Any) -> None:
    things = await world.load()
    key, value = kit.PREFIX + "a", b"1"
    world.backend.hold()
    writing = asyncio.ensure_future(things.writes.put(key, value, expect=0))
    await asyncio.sleep(0)
    await world.backend.put(key, value, expect=2)
    world.backend.release()
    result, entry = await writing
    assert (result.rev, entry.rev) == (2, 2)
    assert things.get(key).rev == 3


async def test_a_write_whose_event_stays_away_is_answered_from_what_was_written(world: Any, kit: Any) -> None:
    things = await world.load()
    key = kit.PREFIX + "a"
    first, _ = await things.writes.put(key, b"0", expect=0)
    world.backend.hold()
    world.backend.get = None  # it isn't read back
    _, entry = await things.writes.put(key, b"1", expect=first.rev)
    assert (entry.rev, entry.create_rev, entry.body) == (3, 2, b"1@3")
    _, entry = await things.writes.put(
        kit.PREFIX + "b", b"1", expect=0, draft=lambda r, c: kit.describe("b", b"!", r, c)
    )
    assert (entry.rev, entry.create_rev, entry.body) == (4, 4, b"!@4")
    assert things.get(key).body == b"0@2", "what isn't complete isn't shown"
    assert things.writes.pending == {}


async def test_a_write_on_what_is_not_here_any_more_is_read_back(world: Any, kit: Any) -> None:
    things = await world.load()
    key = kit.PREFIX + "a"
    world.backend.hold()
    first = await world.write("a", "0")
    _, entry = await things.writes.put(key, b"1", expect=first)
    assert (entry.rev, entry.create_rev, entry.body) == (3, 2, b"1@3")
    last = await world.write("a", "2")
    await world.backend.compact(last)
    real = world.backend.put

    async def forget_at_once(key: str, value: bytes, **rest: Any) -> Any:
        world.backend.put = real
        result = await real(key, value, **rest)
        await world.backend.compact(await world.write("a", "4"))
        return result

    world.backend.put = forget_at_once
    with pytest.raises(OutcomeUnknown, match="was written at revision 5 but can't be read back"):
        await things.writes.put(key, b"3", expect=last)
    assert things.writes.pending == {}


async def test_a_write_waits_for_its_event_and_does_not_ask_for_it(world: Any, kit: Any) -> None:
    things = await world.load()
    world.backend.hold()
    world.backend.nudged = 0
    writing = asyncio.ensure_future(things.writes.put(kit.PREFIX + "a", b"1", expect=0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not writing.done()
    assert world.backend.nudged == 0, "the event comes by itself"
    world.backend.release()
    _, entry = await writing
    assert entry is things.get(kit.PREFIX + "a")
    world.backend.hold()
    await things.writes.delete(kit.PREFIX + "a", expect=entry.rev)
    assert world.backend.nudged > 0, "until it has been away for a while"


async def test_bytes_that_are_equal_are_recognised_as_our_own(world: Any, kit: Any) -> None:
    described: list[str] = []

    def describe(key: str, value: bytes, rev: int, create_rev: int) -> Entry:
        described.append(key)
        return kit.describe(key, value, rev, create_rev)

    things = await world.cache.resource(kit.PREFIX, describe, kit.later)
    key = kit.PREFIX + "a"
    world.backend.copies = True
    _, entry = await things.writes.put(key, b"12", expect=0, draft=lambda rev, c: kit.describe(key, b"12", rev, c))
    assert entry is things.get(key)
    assert described == []


async def test_a_draft_that_raises_is_described_instead(world: Any, kit: Any) -> None:
    things = await world.load()
    _, entry = await things.writes.put(kit.PREFIX + "a", b"1", expect=0, draft=lambda rev, create_rev: 1 / 0)
    assert entry.body == b"1@2"


async def test_an_object_that_cannot_be_described_is_broken_and_the_others_are_not(world: Any, kit: Any) -> None:
    def describe(key: str, value: bytes, rev: int, create_rev: int) -> Entry:
        if value == b"bad":
            raise ValueError("no sense in it")
        return kit.describe(key, value, rev, create_rev)

    await world.write("ns/bad", "bad")
    things = await world.cache.resource(kit.PREFIX, describe, kit.later)
    await world.write("good", "1")
    await world.write("worse", "bad")
    bad = things.get(kit.PREFIX + "ns/bad")
    assert (bad.namespace, bad.name, bad.broken) == ("ns", "bad", "ValueError: no sense in it")
    assert things.get(kit.PREFIX + "worse").broken
    assert not things.get(kit.PREFIX + "good").broken


async def test_a_cancelled_write_leaves_nothing_behind(world: Any, kit: Any) -> None:
    things = await world.load()
    world.backend.hold()
    writing = asyncio.ensure_future(things.writes.put(kit.PREFIX + "a", b"1", expect=0))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    world.backend.release()
    assert things.writes.pending == {}
    assert things.get(kit.PREFIX + "a").body == b"1@2"


async def test_a_time_to_live_ends_with_an_ordinary_deletion(world: Any, kit: Any) -> None:
    things = await world.load()
    heard = kit.Heard()
    things.subscribe(world.cache.rev, heard.deliver, heard.closed)
    await things.writes.put(kit.PREFIX + "a", b"1", expect=0, ttl_ms=1000)
    world.clock.time += 2.0
    world.backend.reap()
    assert heard.texts == ["ADDED a 1@2", "DELETED a 1@3"]
    await things.writes.put(kit.PREFIX + "b", b"1", expect=0, ttl_ms=1000)
    things = await world.restart()
    assert things.get(kit.PREFIX + "b").expires == 1_003_000
