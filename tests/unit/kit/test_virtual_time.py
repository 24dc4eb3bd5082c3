"""Time that only moves when a test says so wakes what waits for it, in order."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref

import pytest

from oarlock.testing.clock import VirtualClock

pytestmark = pytest.mark.anyio


async def test_sleepers_wake_in_the_order_of_their_times_each_at_its_own() -> None:
    clock = VirtualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float, again: float = 0) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))
        if again:
            await sleeper(f"{name} again", again)

    tasks = [asyncio.create_task(sleeper(*what)) for what in (("late", 10), ("early", 3, 4), ("later", 100))]
    await clock.run(50)
    assert woken == [("early", 3), ("early again", 7), ("late", 10)]
    assert clock.monotonic() == 50
    await clock.run(50)
    assert woken[-1] == ("later", 100)
    await asyncio.gather(*tasks)


async def test_a_cancelled_sleeper_is_passed_over() -> None:
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(1))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await clock.run(2)
    assert task.cancelled()


async def test_no_time_is_one_turn_of_the_event_loop() -> None:
    await VirtualClock().sleep(0)


async def test_time_waits_for_threads_that_work() -> None:
    """What is due after a thread's work is as late as the work was asked for, however slow the thread was."""
    clock = VirtualClock()
    times: list[float] = []

    async def work() -> None:
        for _ in range(3):
            await clock.sleep(1)
            await asyncio.to_thread(time.sleep, 0.02)
            times.append(clock.monotonic())

    task = asyncio.create_task(work())
    await clock.run(10)
    assert times == [1, 2, 3]
    await task


async def test_a_thread_that_waits_for_the_test_holds_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarlock.testing.clock.LONGEST_WAIT_S", 0.01)
    clock, goes_on = VirtualClock(), threading.Event()
    await clock.run(1)
    work = asyncio.create_task(asyncio.to_thread(goes_on.wait))
    await clock.run(10)
    assert clock.monotonic() == 11
    assert not work.done()
    goes_on.set()
    await work


async def test_a_patient_clock_waits_until_all_that_follows_is_done() -> None:
    """However many turns of the loop that takes."""
    clock = VirtualClock(patient=True)
    times: list[float] = []

    async def work() -> None:
        await clock.sleep(1)
        for _ in range(2000):
            await asyncio.sleep(0)
        times.append(clock.monotonic())
        await clock.sleep(1)
        times.append(clock.monotonic())

    task = asyncio.create_task(work())
    await clock.run(10)
    assert times == [1, 2]
    await task


def test_a_loop_that_has_ended_is_let_go_with_all_that_ran_in_it() -> None:
    async def run() -> weakref.ref[asyncio.AbstractEventLoop]:
        clock = VirtualClock()
        waiting = asyncio.create_task(asyncio.to_thread(time.monotonic))
        await clock.run(1)
        await waiting
        return weakref.ref(asyncio.get_running_loop())

    with asyncio.Runner() as runner:
        loop = runner.run(run())
    del runner
    gc.collect()
    assert loop() is None
