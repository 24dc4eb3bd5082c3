"""`cache_audit.check`: silent when all is well, and a readable line for each kind of difference."""

from __future__ import annotations

from typing import Any

import cache_audit
import pytest

from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.follower import CacheLimits

pytestmark = pytest.mark.anyio


async def test_a_sound_cache(world: Any, kit: Any) -> None:
    for n in range(20):
        await world.write(f"a{n}", "1")
    things = await world.restart(CacheLimits(page=3))
    await world.write("a3", "2")
    await world.erase("a4")
    assert await cache_audit.check(things) == []


async def test_every_difference_is_named(world: Any, kit: Any) -> None:
    for n in range(6):
        await world.write(f"a{n}", "1")
    things = await world.restart(CacheLimits(page=3))
    state = things._state
    state.remove(kit.describe(kit.PREFIX + "a1", b"1", 90, 3), 0.0)
    state.put(kit.describe(kit.PREFIX + "a2", b"1", 91, 4), 0.0)
    state.put(kit.describe(kit.PREFIX + "zz", b"1", 92, 4), 0.0)
    state.put(Entry(kit.PREFIX + "a5", "", "a5", 7, 7, b"other"), 0.0)
    lines = await cache_audit.check(things)
    assert [line.removeprefix(kit.PREFIX) for line in lines] == [
        "a1 is in the store but not in the cache",
        "a2 was changed at 4 and created at 4, the cache says 91 and 4",
        "a5: the cached body isn't what the stored bytes say",
        "zz is in the cache but not in the store at revision 7",
    ]


async def test_a_draft_that_lies_is_found(world: Any, kit: Any) -> None:
    things = await world.load()
    key = kit.PREFIX + "a"
    await things.writes.put(key, b"1", expect=0, draft=lambda rev, create: Entry(key, "", "a", rev, create, b"2@2"))
    assert len(await cache_audit.check(things)) == 1
