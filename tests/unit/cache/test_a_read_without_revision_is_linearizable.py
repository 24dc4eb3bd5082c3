"""`fresh`: nothing to wait for when this process knows, one question to the store for all who ask at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.storage.backend import FutureRevision, Unavailable

pytestmark = pytest.mark.anyio


async def test_who_alone_holds_the_store_waits_for_nothing(world: Any) -> None:
    await world.load()
    assert world.cache.fresh() is None
    await world.write("a", "1")
    assert world.cache.fresh() is None


async def test_a_store_shared_with_others_is_asked_once_per_turn(world: Any) -> None:
    await world.load()
    world.backend.knows = False
    asked = world.backend.asked
    waits = [world.cache.fresh() for _ in range(100)]
    assert all(wait is not None for wait in waits)
    await asyncio.gather(*waits)
    assert world.backend.asked == asked + 1
    await world.cache.fresh()
    assert world.backend.asked == asked + 2, "an answer begun before the call proves nothing"


async def test_it_waits_until_the_cache_has_what_was_written(world: Any, kit: Any) -> None:
    things = await world.load()
    world.backend.knows = False
    world.backend.hold()
    await world.write("a", "1")
    wait = asyncio.ensure_future(world.cache.fresh())
    await asyncio.sleep(0.005)
    assert not wait.done()
    assert world.backend.nudged >= 1
    world.backend.release()
    await wait
    assert things.get(kit.PREFIX + "a") is not None


async def test_a_known_revision_that_is_not_here_yet_is_waited_for(world: Any) -> None:
    await world.load()
    world.backend.hold()
    await world.write("a", "1")
    asked = world.backend.asked
    wait = world.cache.fresh()
    assert wait is not None
    world.backend.release()
    await wait
    assert world.backend.asked == asked


async def test_a_cache_that_does_not_catch_up_is_unavailable_for_everybody(world: Any) -> None:
    await world.load()
    world.backend.hold()
    await world.write("a", "1")
    results = await asyncio.gather(*(world.cache.fresh() for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable] * 3
    assert "doesn't catch up" in str(results[0])


async def test_a_reader_that_gives_up_takes_nobody_with_it(world: Any) -> None:
    await world.load()
    world.backend.knows = False
    world.backend.hold()
    await world.write("a", "1")
    impatient = asyncio.ensure_future(world.cache.fresh())
    patient = asyncio.ensure_future(world.cache.fresh())
    await asyncio.sleep(0.002)
    impatient.cancel()
    await asyncio.sleep(0)
    world.backend.release()
    await patient
    assert impatient.cancelled()


async def test_the_store_being_away_is_told(world: Any) -> None:
    await world.load()
    world.backend.knows = False
    await world.backend.close()
    with pytest.raises(Unavailable):
        await world.cache.fresh()


async def test_a_revision_to_come_is_waited_for_and_refused_in_the_end(world: Any) -> None:
    await world.load()
    rev = world.cache.rev
    await world.cache.wait_for(rev)
    waiting = asyncio.ensure_future(world.cache.wait_for(rev + 1))
    await asyncio.sleep(0)
    await world.write("a", "1")
    await waiting
    with pytest.raises(FutureRevision) as error:
        await world.cache.wait_for(10**18, timeout_s=0.005)
    assert error.value.current_rev == rev + 1
    assert world.cache._position._waiters == {}


async def test_closing_lets_go_of_who_waits(world: Any) -> None:
    await world.load()
    waiting = asyncio.ensure_future(world.cache.wait_for(10**18, timeout_s=60.0))
    await asyncio.sleep(0.002)
    await world.cache.close()
    with pytest.raises(FutureRevision):
        await waiting


async def test_a_store_that_does_not_answer_is_unavailable_in_time(world: Any, kit: Any) -> None:
    await world.load()
    world.backend.knows = False
    loop = asyncio.get_running_loop()
    real = world.backend.current_rev

    async def never() -> int:
        await loop.create_future()
        return 0

    world.backend.current_rev = never
    begun = loop.time()
    with pytest.raises(Unavailable, match="doesn't answer"):
        await world.cache.fresh()
    assert loop.time() - begun < 2 * kit.QUICK.fresh_s
    world.backend.current_rev = real
    await world.write("a", "1")
    await world.cache.fresh()
    assert world.names() == ["a=1"]
