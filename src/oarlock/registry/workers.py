"""`Workers`: threads for steps on large objects, which would block the event loop too long.

Because of Python's interpreter lock this makes nothing faster, but the event loop waits only for a moment at a time.
The steps are pure, on values that nobody else holds: decoding, conversion by classes, defaults, managedFields,
validation, encoding. Hooks and admission run on the event loop; a request that runs code which may need a task gets one
first (`ensure_task`).
Must not know: what is done. See also: `write`, whose `WriteRequest` passes its steps on.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import types
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from oarlock.meta.errors import ServiceUnavailable, TooManyRequests
from oarlock.net.futures import shared


def sync_variant(component: object, slow: str, quick: str) -> Any:
    """The method `quick` of a `component`, which answers what the coroutine `slow` would, as long as that needn't be
    asked.

    None if it has none, or inherits it from a class whose `slow` it has overridden.
    """
    for each in type(component).__mro__:
        if slow in vars(each):
            return getattr(component, quick) if quick in vars(each) else None
    return None


async def ensure_task() -> None:
    """Return inside a task: at once if there is one, else after one turn of the event loop."""
    if asyncio.current_task() is None:
        await _next_turn()


@types.coroutine
def _next_turn() -> Generator[None, None, None]:
    yield


T = TypeVar("T")

SMALL_BYTES = 8 * 1024
"""An object with fewer bytes always stays on the event loop."""

LARGE_BYTES = 64 * 1024
"""An object with more bytes is always worked on in a thread."""

MANY_VALUES = 500
"""An object in between is worked on in a thread if it has more values than this."""

WAITING_BYTES = 64 * 1024 * 1024
"""The most bytes of request bodies that wait for a thread; decoded, they would take ten times as much."""

THREADS = 2
"""More would make nothing faster; the second lets small objects overtake a large one."""

CLOSED_S = 1.0
"""How often, in seconds, a thread that waits for the event loop checks that it still runs."""


class Offload(Protocol):
    """Runs a pure step: on the event loop, or in a thread."""

    def __call__(self, step: Callable[..., T], /, *args: Any) -> Awaitable[T]: ...


class _WorkingFor(threading.local):
    """The event loop this thread works for; None on the loop itself."""

    loop: asyncio.AbstractEventLoop | None = None


_working_for = _WorkingFor()


def on_the_loop(call: Callable[..., T], /, *args: Any) -> T:
    """Run `call` on the event loop and return its result; a worker's thread waits for it."""
    loop = _working_for.loop
    if loop is None:
        return call(*args)
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call(*args))
        except BaseException as error:
            done.set_exception(error)

    loop.call_soon_threadsafe(run)
    while True:
        try:
            return done.result(CLOSED_S)
        except TimeoutError:
            if done.done():
                raise
            if loop.is_closed():
                raise RuntimeError("the event loop was closed while a hook was to run on it") from None


def in_a_worker() -> bool:
    """Whether the current thread is a worker's, which no event loop waits for."""
    return _working_for.loop is not None


async def at_once(step: Callable[..., T], /, *args: Any) -> T:
    """`Offload` without threads: runs the step at once."""
    return step(*args)


def offload_bytes(data: bytes) -> int:
    """The size of a JSON object in bytes if it is too large for the event loop, else 0."""
    size = len(data)
    if size <= SMALL_BYTES:
        return 0
    return size if size > LARGE_BYTES or data.count(b",") > MANY_VALUES else 0


def is_wide(thing: Any, depth: int = 3) -> bool:
    """Whether a list or object in a tree, or in a typed object, has more than `MANY_VALUES` items.

    That is too much for the loop. A glance at the first levels, for what nobody has counted the bytes of.
    """
    if isinstance(thing, list | tuple):
        return len(thing) > MANY_VALUES
    if isinstance(thing, dict):
        return len(thing) > MANY_VALUES or (depth > 0 and any(is_wide(child, depth - 1) for child in thing.values()))
    names = getattr(thing, "__struct_fields__", ())
    return depth > 0 and any(is_wide(getattr(thing, name), depth - 1) for name in names)


async def aside(step: Callable[..., T], /, *args: Any) -> T:
    """Run a pure step in a thread of the event loop's executor, for steps that belong to no request body."""
    return await asyncio.get_running_loop().run_in_executor(None, step, *args)


class Workers:
    """A few threads, and the queue for them. Used from one event loop.

    Steps of requests that have begun go before bodies that haven't been decoded, so that few requests hold trees. A
    body is refused while more than `limit_bytes` of bodies wait.
    """

    def __init__(self, limit_bytes: int = WAITING_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.waiting_bytes = 0
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="oarlock-worker")
        self._free = THREADS
        self._closed = False
        self._begun: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()
        self._slow: list[tuple[int, int, asyncio.Future[None]]] = []
        self._slow_one = False  # is being worked on
        self._order = itertools.count()

    async def begin(self, size: int, work: Callable[..., T], /, *args: Any) -> T:
        """Run `work(*args)`, which reads a body of `size` bytes; on the event loop for size 0.

        Raises TooManyRequests, and what `work` raises. When cancelled, `work` may still run to its end, and its result
        is dropped.
        """
        if not size:
            return work(*args)
        self._admit(size)
        return await self._in_thread(self._new, size, work, *args)

    async def begin_slowly(self, size: int, work: Callable[..., T], /, *args: Any) -> T:
        """The same for what takes long for its bytes, such as YAML: one at a time, the shortest that waits first.

        So a thread is left for others, and long bodies of one client don't stand before the short ones of another.
        """
        if not size:
            return work(*args)
        self._admit(size)
        if self._slow_one:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._slow, (size, next(self._order), turn))
            self.waiting_bytes += size
            try:
                await turn
            except BaseException:
                if turn.done() and not turn.cancelled() and turn.exception() is None:
                    self._next_slow_one()
                raise
            finally:
                self.waiting_bytes -= size
        self._slow_one = True
        return await self._in_thread(self._new, size, work, *args, ended=self._next_slow_one)

    def _admit(self, size: int) -> None:
        if self.waiting_bytes + size > self.limit_bytes and self.waiting_bytes:
            raise TooManyRequests("too many large objects are being worked on, please try again later")

    def _next_slow_one(self) -> None:
        while self._slow:
            turn = heapq.heappop(self._slow)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._slow_one = False

    async def go_on(self, size: int, work: Callable[..., T], /, *args: Any) -> T:
        """The same for a request that has begun, or holds no memory while it waits: goes first, is never refused."""
        if not size:
            return work(*args)
        return await self._in_thread(self._begun, size, work, *args)

    async def offload(self, step: Callable[..., T], /, *args: Any) -> T:
        """Run `step(*args)` in a thread, whatever its size."""
        return await self.go_on(1, step, *args)

    def free(self, things: list[Any]) -> None:
        """Empty a list in a thread, one item at a time: frees much memory without blocking the event loop."""
        if not self._closed:
            asyncio.get_running_loop().run_in_executor(self._pool, _empty, things)

    async def close(self) -> None:
        """Refuse all waiting and new work with ServiceUnavailable, and wait for what runs."""
        self._closed = True
        for turn in (*self._begun, *self._new, *(waiting[2] for waiting in self._slow)):
            if not turn.done():
                turn.set_exception(_closing())
        await asyncio.to_thread(self._pool.shutdown)

    async def _in_thread(
        self,
        waiting: deque[asyncio.Future[None]],
        size: int,
        work: Callable[..., T],
        *args: Any,
        ended: Callable[[], None] | None = None,
    ) -> T:
        """Run it in a thread when it is its turn; `ended` is called once the thread has ended, or if it doesn't begin.

        A thread counts until it has ended, also if nobody waits for it any more.
        """
        loop = asyncio.get_running_loop()

        def call() -> T:
            _working_for.loop = loop
            try:
                return work(*args)
            except StopIteration as error:  # which a future can't carry
                raise RuntimeError("what was worked on raised StopIteration") from error
            finally:
                _working_for.loop = None

        def over(running: asyncio.Future[T]) -> None:
            self._pass_on()
            if ended is not None:
                ended()

        try:
            if self._closed:
                raise _closing()
            if self._free:
                self._free -= 1
            else:
                await self._turn(waiting, size)
        except BaseException:
            if ended is not None:
                ended()
            raise
        running = loop.run_in_executor(self._pool, call)
        running.add_done_callback(over)
        return await shared(running)

    async def _turn(self, waiting: deque[asyncio.Future[None]], size: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        counted = size if waiting is self._new else 0
        self.waiting_bytes += counted
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()
            raise
        finally:
            self.waiting_bytes -= counted

    def _pass_on(self) -> None:
        for waiting in (self._begun, self._new):
            while waiting:
                turn = waiting.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1


def _empty(things: list[Any]) -> None:
    while things:
        things.pop()


def _closing() -> ServiceUnavailable:
    return ServiceUnavailable("the server is shutting down, please try again later")
