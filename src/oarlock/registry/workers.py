"""`Workers`: threads for work on objects so large that it would hold the event loop too long in one piece.

Python runs one thread at a time, so this makes nothing faster: the interpreter takes turns, and the loop is asked to
wait for a moment instead of for the whole. What is done here is pure, on values that nobody else holds: decoding,
conversion by classes, defaults, owners of fields, rules, encoding. Hooks and admission run on the loop.
Must not know: what is done. Next: `steps`, whose `Write` hands its steps over.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from oarlock.meta.errors import ServiceUnavailable, TooManyRequests

__all__ = ["WAITING_BYTES", "Aside", "Workers", "at_once", "on_the_loop", "weight"]

T = TypeVar("T")

SMALL_BYTES = 8 * 1024
"""An object with fewer bytes is never too much for the loop."""

LARGE_BYTES = 64 * 1024
"""One with more always is."""

MANY_VALUES = 500
"""One in between is if it has more values than this."""

WAITING_BYTES = 64 * 1024 * 1024
"""How many bytes of bodies may wait for a thread. As trees they would take ten times as much."""

THREADS = 2
"""More would make nothing faster; a second lets small things pass a large one."""


CLOSED_S = 1.0
"""How often a thread that waits for the loop looks whether that is still there, in seconds."""


class Aside(Protocol):
    """Does a step of some work where that may take its time: on the loop, or in a thread."""

    def __call__(self, step: Callable[..., T], /, *args: Any) -> Awaitable[T]: ...


class _WorkingFor(threading.local):
    """Whose work this thread does; None on the loop itself."""

    loop: asyncio.AbstractEventLoop | None = None


_working_for = _WorkingFor()


def on_the_loop(call: Callable[..., T], /, *args: Any) -> T:
    """What `call` returns, which has to run on the event loop: in a worker's thread, wait for that."""
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


async def at_once(step: Callable[..., T], /, *args: Any) -> T:
    """`Aside` for those who have no threads."""
    return step(*args)


def weight(data: bytes) -> int:
    """The size of an object in JSON, in bytes, if it is too much for the loop, else 0."""
    size = len(data)
    if size <= SMALL_BYTES:
        return 0
    return size if size > LARGE_BYTES or data.count(b",") > MANY_VALUES else 0


class Workers:
    """A few threads, and who waits for one. Used from one event loop.

    Work that a request has begun goes before bodies that nobody has looked at, so that few requests hold trees. A
    body is refused when more than `limit_bytes` of them are waiting.
    """

    def __init__(self, limit_bytes: int = WAITING_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.waiting_bytes = 0
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="oarlock-worker")
        self._free = THREADS
        self._closed = False
        self._begun: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()

    async def begin(self, size: int, work: Callable[..., T], /, *args: Any) -> T:
        """`work(*args)`, which reads a body of `size` bytes; on the loop for size 0.

        Raises TooManyRequests, and what `work` does. If it is cancelled, `work` may go on to its end, unheard.
        """
        if not size:
            return work(*args)
        if self.waiting_bytes + size > self.limit_bytes and self.waiting_bytes:
            raise TooManyRequests("too many large objects are being worked on, please try again later")
        return await self._in_thread(self._new, size, work, *args)

    async def go_on(self, size: int, work: Callable[..., T], /, *args: Any) -> T:
        """The same for what has begun, or holds nothing while it waits: it goes first and is never refused."""
        if not size:
            return work(*args)
        return await self._in_thread(self._begun, size, work, *args)

    async def aside(self, step: Callable[..., T], /, *args: Any) -> T:
        """`step(*args)` in a thread, however small it is."""
        return await self.go_on(1, step, *args)

    def let_go(self, things: list[Any]) -> None:
        """Empty a list, whose things are the last references to much, one after the other in a thread."""
        if not self._closed:
            asyncio.get_running_loop().run_in_executor(self._pool, _empty, things)

    async def close(self) -> None:
        """Refuse who waits and whoever comes, with ServiceUnavailable, and wait for what is being worked on."""
        self._closed = True
        for turn in (*self._begun, *self._new):
            if not turn.done():
                turn.set_exception(_closing())
        await asyncio.to_thread(self._pool.shutdown)

    async def _in_thread(
        self,
        waiting: deque[asyncio.Future[None]],
        size: int,
        work: Callable[..., T],
        *args: Any,
    ) -> T:
        loop = asyncio.get_running_loop()

        def call() -> T:
            _working_for.loop = loop
            try:
                return work(*args)
            except StopIteration as error:  # which no future may carry
                raise RuntimeError("what was worked on raised StopIteration") from error
            finally:
                _working_for.loop = None

        if self._closed:
            raise _closing()
        if self._free:
            self._free -= 1
        else:
            await self._turn(waiting, size)
        try:
            return await loop.run_in_executor(self._pool, call)
        finally:
            self._pass_on()

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
