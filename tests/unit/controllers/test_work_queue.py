"""A work queue hands each key out once, in order, to one worker at a time, and holds no more than it may."""

from __future__ import annotations

import asyncio

import pytest

from oarlock.controllers.keys import ObjectKey, Result
from oarlock.controllers.running.work_queue import KEY_BYTES, RetryBucket, WorkQueue
from oarlock.net.backoff import Backoff
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.anyio


def key(name: str) -> ObjectKey:
    return ObjectKey("sea", name)


async def test_a_key_is_handed_out_once_and_again_if_it_was_added_meanwhile() -> None:
    queue = WorkQueue(VirtualClock())
    for name in "abab":
        queue.add(key(name))
    assert await queue.get() == key("a")
    queue.add(key("a"))
    assert await queue.get() == key("b")
    assert len(queue) == 0
    queue.done(key("a"))
    assert await queue.get() == key("a")
    queue.done(key("a"))
    queue.done(key("b"))
    assert queue.size_bytes == 0
    assert queue.metrics.adds == 3


async def test_who_waits_is_woken_and_one_who_gives_up_loses_no_key() -> None:
    queue = WorkQueue(VirtualClock())
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add(key("a"))
    first.cancel()
    assert await second == key("a")
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_failures_wait_longer_each_time_up_to_the_longest() -> None:
    clock = VirtualClock()
    queue = WorkQueue(clock, backoff=Backoff(0.005, 1000.0))
    waits = []
    for _ in range(25):
        queue.add(key("a"))
        await queue.get()
        waits.append(queue.retry(key("a")))
        queue.done(key("a"))
        await clock.run(1001)
        await queue.get()
        queue.done(key("a"))
    assert waits[:4] == [0.005, 0.01, 0.02, 0.04]
    assert waits[-1] == 1000
    queue.forget(key("a"))
    assert queue.size_bytes == 0
    queue.add(key("a"))
    assert queue.retry(key("a")) == 0.005
    queue.shut_down(drain=False)


async def test_all_failures_together_are_slowed_down_by_one_bucket() -> None:
    clock = VirtualClock()
    queue = WorkQueue(clock, bucket=RetryBucket(clock, per_s=10, burst=3))
    waits = [queue.retry(key(name)) for name in "abcdef"]
    assert waits == pytest.approx([0.005, 0.005, 0.005, 0.1, 0.2, 0.3])
    queue.shut_down(drain=False)


async def test_delayed_keys_come_in_the_order_of_their_times() -> None:
    clock = VirtualClock()
    queue = WorkQueue(clock)
    queue.add_after(key("late"), 30)
    queue.add_after(key("soon"), 10)
    queue.add_after(key("late"), 60)
    queue.add_after(key("twice"), 50)
    queue.add_after(key("twice"), 20)
    found = []
    for _ in range(4):
        await clock.run(10)
        while len(queue):
            found.append((clock.monotonic(), await queue.get()))
    assert found == [(10, key("soon")), (20, key("twice")), (30, key("late"))]
    assert queue.metrics.waited.sum == 0


async def test_an_earlier_time_given_again_and_again_doesnt_fill_the_memory() -> None:
    queue = WorkQueue(VirtualClock())
    for number in range(5_000):
        queue.add_after(key("a"), 10_000 - number)
    assert len(queue._delayed) < 200
    queue.shut_down(drain=False)


async def test_what_there_is_no_room_for_is_refused_and_told_when_there_is() -> None:
    room: list[int] = []
    queue = WorkQueue(VirtualClock(), max_bytes=10 * KEY_BYTES, on_room=lambda: room.append(1))
    added = [queue.add(key(f"{number:04}" * 50)) for number in range(100)]
    assert 3 <= sum(added) <= 10
    assert queue.size_bytes <= 10 * KEY_BYTES
    assert queue.metrics.refused == 100 - sum(added)
    while len(queue):
        one = await queue.get()
        assert one is not None
        queue.done(one)
        await asyncio.sleep(0)
        assert room == ([1] if queue.size_bytes <= 5 * KEY_BYTES else []), "not before half is free"
    assert room == [1]
    assert queue.add(key("a"))


@pytest.mark.parametrize("drain", [True, False])
async def test_a_queue_is_shut_down_with_or_without_its_keys(drain: bool) -> None:
    clock = VirtualClock()
    queue = WorkQueue(clock)
    for name in "abc":
        queue.add(key(name))
    queue.add_after(key("later"), 10)
    await queue.get()
    queue.shut_down(drain=drain)
    assert not queue.add(key("d"))
    idle = asyncio.create_task(queue.idle())
    for name in "bc" if drain else "":
        assert await queue.get() == key(name)
        queue.done(key(name))
    await asyncio.sleep(0)
    assert not idle.done()
    queue.done(key("a"))
    await idle
    assert await queue.get() is None
    await clock.run(20)
    assert len(queue) == 0


async def test_how_long_keys_waited_and_were_worked_on_is_measured() -> None:
    clock = VirtualClock()
    queue = WorkQueue(clock)
    queue.add(key("a"))
    clock.advance(2)
    await queue.get()
    clock.advance(3)
    assert queue.unfinished() == (3, 3)
    queue.done(key("a"))
    assert (queue.metrics.waited.sum, queue.metrics.worked.sum) == (2, 3)
    assert queue.unfinished() == (0, 0)


async def test_a_wait_grows_while_a_key_asks_for_the_same_again() -> None:
    clock = VirtualClock()
    queue = WorkQueue(clock)
    patient = Result(2, longest_s=6)

    async def waited(result: Result) -> float:
        queue.add(key("a"))
        await queue.get()
        queue.add_as_said(key("a"), result)
        queue.done(key("a"))
        began = clock.monotonic()
        while not len(queue):
            await clock.run(0.5)
        return clock.monotonic() - began

    assert [await waited(patient) for _ in range(5)] == [2, 3, 4.5, 6, 6]
    assert [await waited(Result(1)), await waited(patient)] == [1, 2]
    for wrong in (0, 7):
        with pytest.raises(ValueError, match="longest_s"):
            Result(wrong, longest_s=6)
