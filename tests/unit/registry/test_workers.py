"""`Workers`: who gets a thread when, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from oarlock.meta.errors import ServiceUnavailable, TooManyRequests
from oarlock.registry.workers import LARGE_BYTES, MANY_VALUES, SMALL_BYTES, THREADS, Workers, offload_bytes, on_the_loop

pytestmark = pytest.mark.anyio

LARGE = 100_000


class Held:
    """Work that goes on until it is let go, and says in which order it began."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.go = threading.Event()

    def work(self, name: str) -> str:
        self.began.append(name)
        assert self.go.wait(30)
        return name


@pytest.fixture
def held() -> Held:
    return Held()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 (a thread can't set an asyncio.Event)
        await asyncio.sleep(0)


def fill(workers: Workers, held: Held) -> list[asyncio.Task[Any]]:
    """Keep every thread busy."""
    return [asyncio.create_task(workers.go_on(LARGE, held.work, f"first {n}")) for n in range(THREADS)]


async def test_what_is_small_stays_on_the_loop() -> None:
    workers = Workers()
    assert await workers.go_on(0, threading.get_ident) == threading.get_ident()
    assert await workers.begin(0, threading.get_ident) == threading.get_ident()
    assert await workers.go_on(LARGE, threading.get_ident) != threading.get_ident()
    assert await workers.begin(LARGE, threading.get_ident) != threading.get_ident()
    await workers.close()


async def test_what_has_begun_goes_before_what_has_not(held: Held) -> None:
    workers = Workers()
    others = Held()  # keep all threads but one, so that the order in which the rest began is the order of their turns
    tasks = [asyncio.create_task(workers.go_on(LARGE, others.work, "other")) for _ in range(THREADS - 1)]
    tasks.append(asyncio.create_task(workers.go_on(LARGE, held.work, "first")))
    await until(lambda: len(others.began) + len(held.began) == THREADS)
    tasks += [asyncio.create_task(workers.begin(LARGE, held.work, f"new {n}")) for n in range(3)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(workers.go_on(LARGE, held.work, f"begun {n}")) for n in range(3)]
    await asyncio.sleep(0)
    held.go.set()
    await asyncio.gather(*tasks[THREADS - 1 :])
    assert held.began == ["first", "begun 0", "begun 1", "begun 2", "new 0", "new 1", "new 2"]
    others.go.set()
    await asyncio.gather(*tasks)
    await workers.close()


async def test_bodies_are_refused_when_too_many_bytes_of_them_wait(held: Held) -> None:
    workers = Workers(limit_bytes=3 * LARGE)
    tasks = fill(workers, held)
    tasks += [asyncio.create_task(workers.begin(LARGE, held.work, "new")) for _ in range(3)]
    await until(lambda: workers.waiting_bytes == 3 * LARGE)
    with pytest.raises(TooManyRequests):
        await workers.begin(LARGE, held.work, "refused")
    tasks.append(asyncio.create_task(workers.go_on(LARGE, held.work, "begun")))
    tasks[THREADS].cancel()
    await until(lambda: workers.waiting_bytes == 2 * LARGE)
    tasks.append(asyncio.create_task(workers.begin(LARGE, held.work, "taken")))
    await asyncio.sleep(0)
    held.go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert workers.waiting_bytes == 0
    assert sorted(held.began[THREADS:]) == ["begun", "new", "new", "taken"]
    await workers.close()


async def test_one_body_is_taken_however_large_it_is(held: Held) -> None:
    workers = Workers(limit_bytes=10)
    held.go.set()
    assert await workers.begin(LARGE, held.work, "huge") == "huge"
    await workers.close()


async def test_a_cancelled_turn_goes_to_the_next(held: Held) -> None:
    workers = Workers()
    tasks = fill(workers, held)
    await until(lambda: len(held.began) == THREADS)
    waiting = [asyncio.create_task(workers.go_on(LARGE, held.work, f"waits {n}")) for n in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    held.go.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert waiting[0].cancelled()
    assert done[1:] == ["waits 1", "waits 2"]
    await asyncio.gather(*tasks)
    await workers.close()


async def test_what_is_slow_leaves_a_thread_to_others_and_the_shortest_goes_first(held: Held) -> None:
    workers = Workers()
    slow = [asyncio.create_task(workers.begin_slowly(size, held.work, f"slow {size}")) for size in (900, 700, 50, 800)]
    await until(lambda: len(held.began) == 1)
    other = asyncio.create_task(workers.begin(LARGE, held.work, "another's"))
    await until(lambda: len(held.began) == 2)
    assert held.began == ["slow 900", "another's"]
    assert workers.waiting_bytes == 700 + 50 + 800
    slow[1].cancel()
    await until(lambda: workers.waiting_bytes == 50 + 800)
    held.go.set()
    await asyncio.gather(*slow, other, return_exceptions=True)
    assert held.began[2:] == ["slow 50", "slow 800"]
    assert workers.waiting_bytes == 0
    await workers.close()


async def test_a_slow_one_that_nobody_waits_for_counts_until_it_ends(held: Held) -> None:
    workers = Workers()
    first = asyncio.create_task(workers.begin_slowly(LARGE, held.work, "late"))
    await until(lambda: held.began == ["late"])
    second = asyncio.create_task(workers.begin_slowly(LARGE, held.work, "next"))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    for _ in range(10):
        await asyncio.sleep(0)
    assert held.began == ["late"]
    held.go.set()
    assert await second == "next"
    with pytest.raises(ZeroDivisionError):
        await workers.begin_slowly(LARGE, lambda: 1 // 0)
    assert await workers.begin_slowly(LARGE, held.work, "after an error") == "after an error"
    await workers.close()
    with pytest.raises(ServiceUnavailable):
        await workers.begin_slowly(LARGE, held.work, "closed")


async def test_errors_come_as_they_are_and_the_end_of_an_iteration_is_a_fault() -> None:
    workers = Workers()
    with pytest.raises(ZeroDivisionError):
        await workers.go_on(LARGE, lambda: 1 // 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await workers.go_on(LARGE, next, iter(()))
    await workers.close()


async def test_closing_waits_for_what_runs_and_refuses_what_waits(held: Held) -> None:
    workers = Workers()
    tasks = fill(workers, held)
    await until(lambda: len(held.began) == THREADS)
    waiting = asyncio.create_task(workers.begin(LARGE, held.work, "waits"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(workers.close())
    with pytest.raises(ServiceUnavailable):
        await waiting
    with pytest.raises(ServiceUnavailable):
        await workers.go_on(LARGE, held.work, "late")
    assert not closing.done()
    held.go.set()
    await closing
    assert await asyncio.gather(*tasks) == [f"first {n}" for n in range(THREADS)]


def test_weight_counts_bytes_and_values() -> None:
    assert offload_bytes(b"[" + b"1," * 4000 + b"1]") == 0
    assert offload_bytes(b"x" * SMALL_BYTES) == 0
    assert offload_bytes(b"x" * LARGE_BYTES) == 0
    assert offload_bytes(b"x" * (LARGE_BYTES + 1)) == LARGE_BYTES + 1
    many = b"xxxxxxxxxxxxxxxxxxxx," * (MANY_VALUES + 1)
    assert offload_bytes(many) == len(many)


async def test_what_belongs_on_the_loop_is_called_there_and_waited_for() -> None:
    workers = Workers()

    def work() -> tuple[int, int]:
        return threading.get_ident(), on_the_loop(threading.get_ident)

    here = threading.get_ident()
    there, called_in = await workers.go_on(LARGE, work)
    assert there != here
    assert called_in == here
    assert work() == (here, here)
    with pytest.raises(ZeroDivisionError):
        await workers.go_on(LARGE, on_the_loop, lambda: 1 // 0)
    with pytest.raises(TimeoutError, match="the hook's own"):
        await workers.go_on(LARGE, on_the_loop, _too_late)
    await workers.close()


def _too_late() -> None:
    raise TimeoutError("the hook's own")


def test_a_thread_does_not_wait_for_a_loop_that_is_gone(held: Held) -> None:
    ended: list[BaseException] = []

    def work() -> None:
        held.work("waits")
        try:
            on_the_loop(threading.get_ident)
        except RuntimeError as error:
            ended.append(error)

    async def leave() -> Workers:
        workers = Workers()
        task = asyncio.create_task(workers.go_on(LARGE, work))
        await until(lambda: bool(held.began))
        task.cancel()
        return workers

    workers = asyncio.run(leave())
    held.go.set()
    workers._pool.shutdown()
    assert len(ended) == 1
