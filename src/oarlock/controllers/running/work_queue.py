"""`WorkQueue`: the keys of objects that are to be reconciled.

    while (key := await queue.get()) is not None:
        try: …
        finally: queue.done(key)

A key that is added twice is handed out once. While it is worked on it isn't handed out; if it is added meanwhile, it is
handed out again afterwards. A key that failed comes again after a back-off of its own, within a rate for all that
failed (`RetryBucket`).

What it holds is bounded in bytes. A key for which there is no room is refused, and `on_room` is called once there is:
what filled the queue can fill it again, so nothing is lost. Must not know: what is done with keys.
Source: client-go ``util/workqueue``, in behaviour.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from oarlock.client.clock import TimerClock
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.controllers.metrics import QueueMetrics
from oarlock.meta.context import Clock
from oarlock.net.backoff import Backoff


class RetryBucket:
    """A token bucket: `burst` retries at once, then `per_s` a second, whatever their keys."""

    def __init__(self, clock: Clock, per_s: float = 10.0, burst: int = 100) -> None:
        if per_s <= 0 or burst < 1:
            raise ValueError("a bucket has room for a token, and is refilled")
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._at = clock.monotonic()

    def reserve_s(self) -> float:
        """Take a token; returns how long to wait until it is there."""
        self._refill()
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._per_s)

    def take(self) -> bool:
        """Take a token if there is one."""
        self._refill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(float(self._burst), self._tokens + (now - self._at) * self._per_s)
        self._at = now


log = logging.getLogger("oarlock.controllers")

MAX_QUEUE_BYTES = 256 * 1024 * 1024
"""How much a queue may hold: about half a million keys, with all that belongs to them."""

KEY_BYTES = 500
"""About how much a key takes beside its characters."""


class _KeyState:
    """What is known of one key. `due` is when it is added by itself; None if it isn't."""

    __slots__ = ("active_since", "dirty", "due", "failures", "queued_at", "size", "waits")

    def __init__(self, size: int) -> None:
        self.size = size
        self.dirty = False
        self.queued_at = 0.0
        self.active_since: float | None = None
        self.due: float | None = None
        self.failures = 0
        self.waits = 0


class _Delayed(NamedTuple):
    """A key that is added when it is `due`. The `number` keeps keys from being compared."""

    due: float
    number: int
    key: ObjectKey


class WorkQueue:
    """The queue of one controller, in one event loop. `on_room` is called when it has room again after it refused keys.

    `metrics` are its counters, if given. Call `shut_down` at the end: it may have a waiting task.
    """

    def __init__(
        self,
        clock: TimerClock,
        *,
        backoff: Backoff | None = None,
        bucket: RetryBucket | None = None,
        max_bytes: int = MAX_QUEUE_BYTES,
        on_room: Callable[[], object] | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self.metrics = metrics or QueueMetrics()
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._bucket = bucket or RetryBucket(clock)
        self._max_bytes = max_bytes
        self._on_room = on_room
        self._refusing = False
        self._keys: dict[ObjectKey, _KeyState] = {}
        self._bytes = 0
        self._ready: deque[ObjectKey] = deque()
        self._active = 0
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._closing = False
        self._delayed: list[_Delayed] = []
        self._numbers = count()
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        """How many keys could be handed out now."""
        return len(self._ready)

    @property
    def active(self) -> int:
        """How many keys are worked on."""
        return self._active

    @property
    def size_bytes(self) -> int:
        """About how much it holds."""
        return self._bytes

    def unfinished(self) -> tuple[float, float]:
        """How long those keys have been worked on that still are: the sum, and the longest. In seconds."""
        now = self._clock.monotonic()
        durations = [now - key.active_since for key in self._keys.values() if key.active_since is not None]
        return sum(durations), max(durations, default=0.0)

    # Adding

    def add(self, key: ObjectKey) -> bool:
        """Have `key` handed out, once. Returns False if there was no room for it, or the queue is shut down."""
        state = self._state(key)
        if state is None:
            return False
        if state.dirty:
            return True
        state.dirty = True
        state.queued_at = self._clock.monotonic()
        self.metrics.adds += 1
        if state.active_since is None:
            self._hand_out(key)
        return True

    def add_after(self, key: ObjectKey, seconds: float) -> bool:
        """Add `key` later, or at the earlier of two such times."""
        if seconds <= 0:
            return self.add(key)
        state = self._state(key)
        if state is None:
            return False
        due = self._clock.monotonic() + seconds
        if state.due is None or due < state.due:
            state.due = due
            self._delay(key, due)
        return True

    def add_as_said(self, key: ObjectKey, result: Result) -> bool:
        """Add `key` after the time that its reconcile asked for, which may be longer each time in a row."""
        state = self._state(key)
        if state is None:
            return False
        wait_s = result.wait_s(state.waits)
        state.waits = 0 if result.longest_s is None else state.waits + 1
        return self.add_after(key, wait_s)

    def retry(self, key: ObjectKey) -> float:
        """Add a key that failed after its back-off, and not faster than all may be retried. Returns the wait."""
        state = self._state(key)
        if state is None:
            return 0.0
        state.failures += 1
        self.metrics.retries += 1
        wait_s = max(self._backoff.wait_s(state.failures), self._bucket.reserve_s())
        self.add_after(key, wait_s)
        return wait_s

    def forget(self, key: ObjectKey) -> None:
        """Begin with the shortest back-off when `key` fails again."""
        state = self._keys.get(key)
        if state is not None:
            state.failures = 0
            self._drop_if_unused(key, state)

    def failures(self, key: ObjectKey) -> int:
        """How often `key` has failed in a row."""
        state = self._keys.get(key)
        return 0 if state is None else state.failures

    # Handing out

    async def get(self) -> ObjectKey | None:
        """The next key, which is the caller's until `done`; None when the queue is shut down and empty."""
        while not self._ready:
            if self._closing:
                return None
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # it was told of a key that another can have
                raise
        key = self._ready.popleft()
        state = self._keys[key]
        state.dirty = False
        now = self._clock.monotonic()
        self.metrics.waited.add(now - state.queued_at)
        state.active_since = now
        self._active += 1
        return key

    def done(self, key: ObjectKey) -> None:
        """Give a key back that `get` returned."""
        state = self._keys[key]
        assert state.active_since is not None
        self.metrics.worked.add(self._clock.monotonic() - state.active_since)
        state.active_since = None
        self._active -= 1
        if state.dirty:
            self._hand_out(key)
        else:
            self._drop_if_unused(key, state)
        if not self._active and not self._ready:
            self._tell_idle()

    async def idle(self) -> None:
        """Wait until nothing is worked on and nothing could be; keys that are added later don't count."""
        while self._active or self._ready:
            waiter = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter

    def shut_down(self, *, drain: bool) -> None:
        """Take no more keys. Those that are ready are still handed out with `drain`, and dropped without it."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._delayed.clear()
        if not drain:
            self._ready.clear()
            for key, state in tuple(self._keys.items()):
                state.dirty = False
                if state.active_since is None:
                    self._forget_state(key, state)
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
        if not self._active and not self._ready:
            self._tell_idle()

    # What it holds

    def _state(self, key: ObjectKey) -> _KeyState | None:
        if self._closing:
            return None
        state = self._keys.get(key)
        if state is None:
            size = KEY_BYTES + 4 * (len(key.namespace) + len(key.name))
            if self._bytes + size > self._max_bytes:
                if not self.metrics.refused:
                    log.warning("a work queue is full: %d keys; more are refused until half is free", len(self._keys))
                self._refusing = True
                self.metrics.refused += 1
                return None
            state = self._keys[key] = _KeyState(size)
            self._bytes += size
        return state

    def _drop_if_unused(self, key: ObjectKey, state: _KeyState) -> None:
        if not state.dirty and state.active_since is None and state.due is None and not state.failures:
            self._forget_state(key, state)

    def _forget_state(self, key: ObjectKey, state: _KeyState) -> None:
        del self._keys[key]
        self._bytes -= state.size
        if self._refusing and self._bytes <= self._max_bytes // 2 and not self._closing:
            self._refusing = False
            if self._on_room is not None:
                asyncio.get_running_loop().call_soon(self._on_room)

    def _hand_out(self, key: ObjectKey) -> None:
        self._ready.append(key)
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _tell_idle(self) -> None:
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # What is added later

    def _delay(self, key: ObjectKey, due: float) -> None:
        if len(self._delayed) > 2 * len(self._keys) + 64:
            self._delayed = [delayed for delayed in self._delayed if self._is_due_then(delayed)]
            heapq.heapify(self._delayed)
        heapq.heappush(self._delayed, _Delayed(due, next(self._numbers), key))
        if self._timer is None or due < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = due
            self._timer = asyncio.create_task(self._add_due(), name="delayed keys of a work queue")

    def _is_due_then(self, entry: _Delayed) -> bool:
        state = self._keys.get(entry.key)
        return state is not None and state.due == entry.due

    async def _add_due(self) -> None:
        while self._delayed:
            self._timer_at = self._delayed[0].due
            wait_s = self._timer_at - self._clock.monotonic()
            if wait_s > 0:
                await self._clock.sleep(wait_s)
                continue
            entry = heapq.heappop(self._delayed)
            if self._is_due_then(entry):
                self._keys[entry.key].due = None
                self.add(entry.key)
        self._timer = None
