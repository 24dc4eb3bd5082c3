"""Shared by the contract suites: a recording watch, the base class, and `SkippingBackend`, which skips revisions.

Must not know: any particular backend. See also: `backend`.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from oarlock.meta.context import Clock
from oarlock.storage.backend import (
    KEEP_TTL,
    Backend,
    Batch,
    Deliver,
    Failed,
    Rev,
    StorageError,
    StoreEvent,
    Watch,
    WriteResult,
)
from oarlock.storage.forwarding import ForwardingBackend
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock

START, END = "/t/", "/t0"
"""The range the suites write in: every key with the prefix ``/t/``."""

_PATIENCE_S = 60.0
_NEEDS = "needs_of_the_suite"
Refusal = TypeVar("Refusal", bound=StorageError)
Test = TypeVar("Test", bound=Callable[..., Any])


class Recorder:
    """A watcher that records events, and checks each delivery."""

    def __init__(self, after: Rev = 0) -> None:
        self.events: list[StoreEvent] = []
        self.rev = after
        self.error: StorageError | None = None
        self.began = time.monotonic()

    def deliver(self, batch: Batch) -> None:
        assert self.error is None, "nothing may follow a failure"
        assert batch.rev >= self.rev, f"progress went back from {self.rev} to {batch.rev}"
        for event in batch.events:
            assert self.rev < event.rev <= batch.rev, f"event {event.rev} is outside of ({self.rev}, {batch.rev}]"
            assert not self.events or event.rev > self.events[-1].rev, "events out of order"
            self.events.append(event)
        self.rev = batch.rev

    def failed(self, error: StorageError) -> None:
        assert self.error is None, "a watch fails once"
        self.error = error

    async def until(self, rev: Rev) -> None:
        """Wait until progress says that everything up to `rev` was delivered."""
        await eventually(lambda: self.rev >= rev, f"a watch stays at {self.rev} below {rev}: {self.error}")

    async def until_over(self, rev: Rev) -> None:
        """Wait until `rev` or a failure."""
        await eventually(lambda: self.error is not None or self.rev >= rev, f"a watch stays at {self.rev} below {rev}")

    async def until_failed(self) -> StorageError:
        await eventually(lambda: self.error is not None, "the watch goes on")
        assert self.error is not None
        return self.error


def two_servers(test: Test) -> Test:
    """Marks a test that opens a `replica`."""
    setattr(test, _NEEDS, "replica")
    return test


def that_loses(test: Test) -> Test:
    """Marks a test of a store that loses its newest history (`lose_after`)."""
    setattr(test, _NEEDS, "lose_after")
    return test


class Suite:
    """The base of the suites: subclass one of them and say how a backend is made.

    `folder` is empty at the beginning of a test. Calling `backend` again with the same folder, after the
    first was closed, opens the same store if the backend is durable.
    """

    def __init_subclass__(cls) -> None:
        """Run the suites' own tests in an event loop. Leave out those that need a method which isn't overridden."""
        if cls.__module__.startswith("oarlock.testing."):
            for name, test in list(vars(cls).items()):
                if name.startswith("test_") and inspect.iscoroutinefunction(test):
                    setattr(cls, name, _in_event_loop(test))
        if cls.backend is not Suite.backend:
            for name in dir(cls):
                method = getattr(getattr(cls, name), _NEEDS, "")
                if method and getattr(cls, method) is getattr(Suite, method):
                    setattr(cls, name, None)

    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        """A backend that isn't started yet."""
        raise AssertionError("a suite is subclassed with a `backend`")

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        """Another server on the store in `folder`, while the first is open. Left out when there is no such thing."""
        raise AssertionError("the test asks for a second server, and isn't marked with `two_servers`")

    async def lose_after(self, backend: Backend, rev: Rev) -> None:
        """Make the store lose every write after `rev`, as a failover or a restore may, while `backend` is open.

        Left out when nothing can do that to the store.
        """
        raise AssertionError("the test loses history, and isn't marked with `that_loses`")

    async def expire(self, backend: Backend) -> None:
        """Make `backend` delete what has expired, now."""
        reap = getattr(backend, "reap", None)
        assert reap is not None, "override `expire` for a backend without `reap`"
        outcome = reap()
        if asyncio.iscoroutine(outcome):
            await outcome

    @asynccontextmanager
    async def opened(self, folder: Path, clock: VirtualClock | None = None) -> AsyncIterator[Backend]:
        backend = self.backend(folder, clock or VirtualClock())
        await backend.start()
        try:
            yield backend
        finally:
            await backend.close()

    @asynccontextmanager
    async def pair(self, folder: Path, clock: VirtualClock | None = None) -> AsyncIterator[tuple[Backend, Backend]]:
        """Two servers on one store."""
        clock = clock or VirtualClock()
        async with self.opened(folder, clock) as first:
            second = self.replica(folder, clock)
            await second.start()
            try:
                yield first, second
            finally:
                await second.close()


def _in_event_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An asynchronous test as one that pytest runs without a plugin."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def eventually(true: Callable[[], bool], why: str) -> None:
    """Wait until `true`, polling every few milliseconds; fail after a long time."""
    give_up = time.monotonic() + _PATIENCE_S
    while not true():
        assert time.monotonic() < give_up, why
        await asyncio.sleep(0.002)


async def record(backend: Backend, after: Rev, span: tuple[str, str] = (START, END)) -> Recorder:
    """Watch `span` after revision `after`."""
    recorder = Recorder(after)
    await backend.watch(*span, after=after, deliver=recorder.deliver, failed=recorder.failed)
    return recorder


async def caught_up(backend: Backend, *watches: Recorder) -> Rev:
    """Wait until each of `watches` has been delivered everything up to now; the current revision."""
    rev = await backend.current_rev()
    await backend.request_progress()
    for watch in watches:
        await watch.until(rev)
    return rev


async def refused(call: Awaitable[object], kind: type[Refusal]) -> Refusal:
    """The error of `kind` that `call` must raise."""
    try:
        answer = await call
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, and the answer was {answer!r}")


async def running(tasks: Sequence[asyncio.Task[Any]]) -> bool:
    """Whether any of `tasks` is still running, after one turn of the event loop."""
    await asyncio.sleep(0)
    return not all(task.done() for task in tasks)


def fold(state: dict[str, tuple[bytes, Rev]], events: list[StoreEvent]) -> dict[str, tuple[bytes, Rev]]:
    """`state` (key → value, revision) after `events`, checking that each fits what was there before it."""
    for event in events:
        before = state.get(event.key)
        assert event.prev_rev == (before[1] if before else 0), f"{event} does not follow {before}"
        assert event.prev_value == (before[0] if before else None), f"{event} carries another previous value"
        if event.value is None:
            del state[event.key]
        else:
            state[event.key] = (event.value, event.rev)
    return state


async def mutate_at_random(backend: Backend, seed: int, writes: int, keys: int = 8) -> int:
    """Create, update and delete a few keys with the last known revisions; returns how many writes count."""
    dice = random.Random(seed)
    revs: dict[str, Rev] = {}
    count = 0
    for number in range(writes):
        await asyncio.sleep(0)
        key = f"{START}{dice.randrange(keys)}"
        if dice.random() < 0.3:
            result = await backend.delete(key, expect=revs.get(key, 0))
            now = 0
        else:
            result = await backend.put(key, f"{seed}-{number}".encode(), expect=revs.get(key, 0))
            now = result.rev
        if result.ok:
            count += 1
            revs[key] = now
        else:
            revs[key] = result.current.mod_rev if result.current else 0
    return count


FOREIGN = "/foreign/"
"""The prefix of the other writers' keys."""


class SkippingBackend(ForwardingBackend):
    """`seed` makes it repeatable; `holes` is the most revisions skipped at once."""

    def __init__(self, clock: Clock, *, seed: int = 0, holes: int = 5) -> None:
        self._dice = random.Random(seed)
        self._memory = MemoryBackend(clock, next_rev=lambda rev: rev + 1 + self._dice.randrange(holes + 1))
        super().__init__(self._memory)
        # In a store with other writers the current revision is unknown without asking.
        self.known_rev = lambda: None
        self._foreign: dict[str, Rev] = {}
        self._requested = 0

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        await self._others()
        result = await self._inner.put(key, value, expect=expect, ttl_ms=ttl_ms)
        await self._others()
        return result

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        await self._others()
        result = await self._inner.delete(key, expect=expect)
        await self._others()
        return result

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> Watch:
        def sparing(batch: Batch) -> None:
            if batch.events or self._requested:
                deliver(batch)

        return await self._inner.watch(start, end, after=after, deliver=sparing, failed=failed)

    async def request_progress(self) -> None:
        self._requested += 1
        try:
            await self._inner.request_progress()
        finally:
            self._requested -= 1

    def reap(self) -> int:
        """Delete expired keys; returns how many."""
        return self._memory.reap()

    def lose_after(self, rev: Rev) -> None:
        """Forget every write after `rev`, as `MemoryBackend.lose_after`."""
        self._memory.lose_after(rev)

    async def _others(self) -> None:
        """Sometimes write a key of another writer."""
        for _ in range(self._dice.choice((0, 0, 1, 3))):
            key = f"{FOREIGN}{self._dice.randrange(3)}"
            rev = self._foreign.get(key, 0)
            if rev and self._dice.random() < 0.3:
                await self._inner.delete(key, expect=rev)
                del self._foreign[key]
            else:
                result = await self._inner.put(key, b"foreign", expect=rev)
                current = result.current
                self._foreign[key] = result.rev if result.ok else current.mod_rev if current else 0
