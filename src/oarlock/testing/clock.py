"""`VirtualClock`: time that only moves when a test says so."""

from __future__ import annotations

import asyncio
import heapq
import time
from asyncio import AbstractEventLoop, Future
from itertools import count
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

_TURNS = 50
_QUIET_TURNS = 5
_MOST_TURNS = 50_000
"""A task that never waits holds the clock for so many turns."""

LONGEST_WAIT_S = 1.0
"""Real seconds that `VirtualClock.run` waits for threads that do nothing: such a one may wait for the test itself."""

NOTHING_S = 0.005
"""So little CPU time of the process is nothing. A thread that works gets more, also on a loaded machine."""


class _ThreadCalls:
    """The calls that an event loop has given to threads and that haven't ended.

    asyncio has no list of them, so the loop's `run_in_executor`, through which all of them go, is wrapped. The loop and
    this object refer to each other; keep no other reference, or all that was done in that loop stays in memory.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._running: set[Future[Any]] = set()
        self._too_long: set[Future[Any]] = set()
        self._run_in_executor = loop.run_in_executor
        loop.run_in_executor = self._follow  # type: ignore[method-assign, assignment]

    def _follow(self, executor: Any, function: Any, *args: Any) -> Future[Any]:
        future = self._run_in_executor(executor, function, *args)
        self._running.add(future)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: Future[Any]) -> None:
        self._running.discard(future)
        self._too_long.discard(future)

    async def ended(self) -> bool:
        """Wait for a call to end. False when none is running, but those that do nothing."""
        awaited = self._running - self._too_long
        if not awaited:
            return False
        used_s = time.process_time()
        ended, running = await asyncio.wait(awaited, timeout=LONGEST_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        if not ended and time.process_time() - used_s < NOTHING_S:
            self._too_long |= running
        return True


_followed: WeakKeyDictionary[AbstractEventLoop, ReferenceType[_ThreadCalls]] = WeakKeyDictionary()


def _thread_calls() -> _ThreadCalls:
    loop = asyncio.get_running_loop()
    followed = _followed.get(loop)
    found = None if followed is None else followed()
    if found is None:
        found = _ThreadCalls(loop)
        _followed[loop] = ref(found)
    return found


class VirtualClock:
    """A `TimerClock`. Starts at `epoch_s` seconds since the epoch (2026-01-01 by default), monotonic at 0.

    What waits with `sleep` is woken by `advance`, when its time has come. A `patient` one lets all that follows from a
    moment be done, however many turns of the event loop that takes; it is not for tests that poll in turns themselves.
    """

    def __init__(self, epoch_s: float = 1_767_225_600.0, *, patient: bool = False) -> None:
        self._epoch_s = epoch_s
        self._patient = patient
        self._elapsed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    def now(self) -> float:
        return self._epoch_s + self._elapsed_s

    def monotonic(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        _thread_calls()
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, next(self._numbers), future))
        await future

    def advance(self, seconds: float) -> None:
        """Move the time by `seconds` at once. Timers of the event loop aren't affected."""
        if seconds < 0:
            raise ValueError("time doesn't go back")
        self._elapsed_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_s:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)

    async def run(self, seconds: float) -> None:
        """Move the time by `seconds`, from one sleeper to the next.

        Each sleeper gets some turns of the event loop to do its work. Time stands still while threads of the loop's
        executors work, so their speed changes nothing.
        """
        until = self._elapsed_s + seconds
        await _turns(self._patient)
        while self._sleepers and self._sleepers[0][0] <= until:
            self.advance(max(0.0, self._sleepers[0][0] - self._elapsed_s))
            await _turns(self._patient)
        self.advance(until - self._elapsed_s)
        await _turns(self._patient)


async def _turns(patient: bool) -> None:
    calls = _thread_calls()
    working = True
    while working:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        if patient:
            await _until_nothing_is_ready()
        working = await calls.ended()


async def _until_nothing_is_ready() -> None:
    """Let others work until all of them wait, as far as the loop tells; asyncio's own does."""
    ready = getattr(asyncio.get_running_loop(), "_ready", ())
    quiet = 0
    for _ in range(_MOST_TURNS):
        await asyncio.sleep(0)
        quiet = 0 if ready else quiet + 1
        if quiet >= _QUIET_TURNS:
            return
