"""What a backend promises when its connection breaks, at every step of a conversation: for stores behind TCP.

    class TestMine(ConnectionContract):
        def backend(self, folder, clock): ...                   # straight to the store
        def address(self, folder): return ("127.0.0.1", 5432)   # where the store listens
        def through(self, folder, clock, port): ...             # with short deadlines, to 127.0.0.1 and `port`

A conversation is every call of the protocol. It is broken off at one byte after the other, in either direction, by a
reset, a half-closed connection, silence, or a store that is away. Each call must end in time, with a result or an error
of the family; a write says `Unavailable` only if it isn't done and won't be; the backend must work again soon.

``OARLOCK_FAULT_POINTS`` is at how many bytes each fault happens, a few unless it is set; 0: at all segments.

Must not know: any particular backend. See also: `oarlock.testing.proxy`, `claims`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from oarlock.storage.backend import Backend, Compacted, Rev, StorageError, Unavailable, Watch
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.claims import Claim, ClientRecords, ReadRecord, WatchRecord, WriteOutcome, judge
from oarlock.testing.contracts.clients import History, attempt, list_in_pages, quiesce
from oarlock.testing.contracts.support import END, START, Recorder, Suite
from oarlock.testing.proxy import Direction, TcpProxy

T = TypeVar("T")
_PAUSE_S = 0.02
log = logging.getLogger("oarlock.testing.faults")


class _Fault(NamedTuple):
    """What happens to the connection, and what ends it when a call has failed."""

    name: str
    begin: Callable[[TcpProxy], None]
    end: Callable[[TcpProxy], None]


def _noop(proxy: TcpProxy) -> None:
    return None


FAULTS = [
    _Fault("reset", TcpProxy.cut, _noop),
    _Fault("the client's half is closed", lambda proxy: proxy.half_close(Direction.UP), _noop),
    _Fault("the server's half is closed", lambda proxy: proxy.half_close(Direction.DOWN), _noop),
    _Fault("silent, then all comes late", TcpProxy.stall, TcpProxy.flow),
    _Fault("answers are lost, then reset", lambda proxy: proxy.stall(Direction.DOWN), lambda proxy: _reset(proxy)),
]


def _reset(proxy: TcpProxy) -> None:
    proxy.cut()
    proxy.flow()


class ConnectionContract(Suite):
    """`patience_s` is the longest that a call may take, `recovery_s` within which all works again."""

    patience_s = 5.0
    recovery_s = 10.0

    def address(self, folder: Path) -> tuple[str, int]:
        """Where the store of `folder` listens."""
        raise AssertionError("a suite is subclassed with an `address`")

    def through(self, folder: Path, clock: VirtualClock, port: int) -> Backend:
        """A backend that connects to `port` instead, with deadlines of a second or less."""
        raise AssertionError("a suite is subclassed with `through`")

    @pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
    async def test_w4_a_connection_breaks_at_any_step(self, tmp_path: Path, fault: _Fault) -> None:
        async with self._behind_a_proxy(tmp_path) as (proxy, direct, clock):
            far = self.through(tmp_path, clock, proxy.port)
            await far.start()
            history = History(direct, await direct.list(START, END))
            await history.start()
            try:
                sweep = _Sweep(self, far, proxy, fault, history)
                await sweep.run()
                await far.close()
                verdict = judge(sweep.notes, await history.up_to(await quiesce(direct)))
                assert not verdict.problems, verdict
                log.info("%s: %s; %s", fault.name, verdict, sweep)
            finally:
                await history.close()
                await far.close()

    async def test_a_start_is_broken_off_at_any_step(self, tmp_path: Path) -> None:
        """It fails with an error of the family, or succeeds; nothing is left behind that another start minds."""
        async with self._behind_a_proxy(tmp_path) as (proxy, _, clock):
            proxy.count_from_here()
            await self._start_once(tmp_path, clock, proxy)
            for direction in Direction:
                for after in _chosen(proxy, direction):
                    proxy.break_after(after, direction, proxy.cut)
                    why = await self._start_error(tmp_path, clock, proxy)
                    assert why is None or len(why.splitlines()) == 1, why
                    proxy.call_off()
                    await self._start_once(tmp_path, clock, proxy)

    async def _start_error(self, folder: Path, clock: VirtualClock, proxy: TcpProxy) -> str | None:
        try:
            await self._start_once(folder, clock, proxy)
        except StorageError as error:
            return str(error)
        return None

    async def _start_once(self, folder: Path, clock: VirtualClock, proxy: TcpProxy) -> None:
        backend = self.through(folder, clock, proxy.port)
        try:
            async with asyncio.timeout(self.patience_s + 5):
                await backend.start()
        finally:
            await asyncio.wait_for(backend.close(), self.patience_s + 5)

    @asynccontextmanager
    async def _behind_a_proxy(self, folder: Path) -> AsyncIterator[tuple[TcpProxy, Backend, VirtualClock]]:
        clock = VirtualClock()
        async with self.opened(folder, clock) as direct, TcpProxy(*self.address(folder)) as proxy:
            yield proxy, direct, clock


def _chosen(proxy: TcpProxy, direction: Direction, least: int = 4) -> list[int]:
    """At how many bytes to break off: ends of segments and places inside of them, evenly spread, at least the first."""
    ends = [segment.end for segment in proxy.segments if segment.direction is direction]
    places = sorted({0, *ends, *(end - 1 for end in ends)})
    wanted = int(os.environ.get("OARLOCK_FAULT_POINTS", least)) or len(places)
    step = max(1.0, len(places) / wanted)
    return [places[int(index * step)] for index in range(min(wanted, len(places)))]


class _Sweep:
    """One conversation after the other with `far`, each broken off at another byte."""

    def __init__(
        self, suite: ConnectionContract, far: Backend, proxy: TcpProxy, fault: _Fault, history: History
    ) -> None:
        self.notes = ClientRecords()
        self.rounds = 0
        self.happened = 0
        self.slowest_recovery_s = 0.0
        self._recoveries = 0
        self._on = False
        self._suite = suite
        self._far = far
        self._proxy = proxy
        self._fault = fault
        self._history = history

    def __str__(self) -> str:
        return (
            f"{self.happened} of {self.rounds} conversations broken, longest call {self.notes.longest_s:.2f} s, "
            f"slowest recovery {self.slowest_recovery_s:.2f} s"
        )

    async def run(self) -> None:
        await self._converse()  # the first one opens connections
        self._proxy.count_from_here()
        await self._converse()
        assert all(claim.outcome in (WriteOutcome.DONE, WriteOutcome.REFUSED) for claim in self.notes.claims)
        places = {direction: _chosen(self._proxy, direction) for direction in Direction}
        for direction, bytes_passed in places.items():
            for after in bytes_passed:
                self._proxy.break_after(after, direction, self._begin_fault)
                await self._converse()
                self.happened += self._proxy.broken
                self._proxy.call_off()
        assert self.happened > self.rounds / 3, "hardly a conversation was broken: the test shows nothing"

    def _begin_fault(self) -> None:
        self._on = True
        self._fault.begin(self._proxy)

    def _end_fault(self) -> None:
        if self._on:
            self._on = False
            self._fault.end(self._proxy)

    async def _converse(self) -> None:
        conversation = _Conversation(self._call, self.notes, self._far, f"{START}{self.rounds:05}/", self._history)
        self.rounds += 1
        try:
            await conversation.hold()
            await self._recover(conversation.seen)
        finally:
            conversation.end()

    async def _call(self, call: Awaitable[T]) -> T:
        """`call`, which must end in time. After an error the fault is over."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._suite.patience_s):
                result = await call
        except TimeoutError:
            raise AssertionError(f"a call hangs for more than {self._suite.patience_s} s") from None
        except StorageError:
            self._end_fault()
            raise
        finally:
            self.notes.longest_s = max(self.notes.longest_s, time.monotonic() - began)
        if isinstance(result, Claim) and result.outcome in (WriteOutcome.UNAVAILABLE, WriteOutcome.UNKNOWN):
            self._end_fault()
        return result

    async def _recover(self, seen: Recorder | None) -> None:
        """Soon a write is done again, and a watch has its event, unless it has failed."""
        self._end_fault()
        began = time.monotonic()
        while True:
            self._recoveries += 1
            key = f"{START}recovery-{self._recoveries}"
            claim = await self._call(attempt(self._far, key, key.encode(), 0))
            self.notes.claims.append(claim)
            if claim.outcome is WriteOutcome.DONE:
                break
            assert time.monotonic() - began < self._suite.recovery_s, "no write succeeds any more"
            await asyncio.sleep(_PAUSE_S)
        self.slowest_recovery_s = max(self.slowest_recovery_s, time.monotonic() - began)
        if seen is not None:
            while seen.error is None and seen.rev < claim.rev:
                assert time.monotonic() - began < self._suite.recovery_s, "a watch is stuck, and nobody is told"
                await asyncio.sleep(_PAUSE_S)


class _Conversation:
    """Every call of the protocol, with keys of its own. `seen` is what its watch has seen."""

    def __init__(
        self,
        call: Callable[[Awaitable[Any]], Awaitable[Any]],
        notes: ClientRecords,
        backend: Backend,
        prefix: str,
        history: History,
    ) -> None:
        self._history = history
        self.seen: Recorder | None = None
        self._after: Rev = 0
        self._call = call
        self._notes = notes
        self._backend = backend
        self._prefix = prefix
        self._watch: Watch | None = None
        self._revs: dict[str, Rev] = {}

    async def hold(self) -> None:
        steps: list[Callable[[], Awaitable[None]]] = [
            self._list,
            self._begin_watch,
            *(partial(self._write, name, b"first") for name in "abc"),
            partial(self._write, "a", b"second"),
            partial(self._refused, "a"),
            self._list,
            partial(self._get, "b"),
            self._count,
            partial(self._write, "b", None),
            self._progress,
            self._compact,
            partial(self._get, "a"),
        ]
        for step in steps:
            try:
                await step()
            except Unavailable:
                pass

    def end(self) -> None:
        if self._watch is not None:
            self._watch.close()
        if self.seen is not None:
            self._notes.stretches.append(WatchRecord(self._after, self.seen.rev, self.seen.events))

    async def _write(self, name: str, value: bytes | None) -> None:
        key = self._prefix + name
        unique = None if value is None else key.encode() + b" " + value
        await self._attempt(key, unique, self._revs.get(key, 0))

    async def _refused(self, name: str) -> None:
        key = self._prefix + name
        await self._attempt(key, b"never", self._revs.get(key, 0) + 1_000_000)

    async def _attempt(self, key: str, value: bytes | None, expect: Rev) -> None:
        if value is None and not expect:
            return
        claim = await self._call(attempt(self._backend, key, value, expect))
        self._notes.claims.append(claim)
        if claim.outcome in (WriteOutcome.DONE, WriteOutcome.REFUSED):
            self._revs[key] = 0 if value is None else claim.rev

    async def _list(self) -> None:
        span = self._prefix, self._prefix[:-1] + "0"
        self._notes.listings.append(await self._call(list_in_pages(self._backend, span, 1)))

    async def _get(self, name: str) -> None:
        began = time.monotonic()
        key = self._prefix + name
        kv, rev = await self._call(self._backend.get(key))
        items = {} if kv is None else {key: kv.mod_rev}
        self._notes.listings.append(ReadRecord(key, key + "\0", rev, items, began))

    async def _count(self) -> None:
        keys, rev = await self._call(self._backend.count(START, END))
        page = await self._call(self._backend.list(START, END, rev=rev))
        assert keys == len(page.kvs), f"{keys} keys counted at {rev}, and {len(page.kvs)} listed"

    async def _begin_watch(self) -> None:
        self._after = await self._call(self._backend.current_rev())
        seen = Recorder(self._after)
        watch = self._backend.watch(START, END, after=self._after, deliver=seen.deliver, failed=seen.failed)
        self._watch = await self._call(watch)
        self.seen = seen

    async def _progress(self) -> None:
        await self._call(self._backend.request_progress())

    async def _compact(self) -> None:
        # What all are compared with must not be compacted before it was seen.
        oldest = min((rev for rev in (*self._revs.values(), self._history.rev) if rev), default=0)
        if oldest:
            try:
                await self._call(self._backend.compact(oldest))
            except Compacted:
                pass  # by an attempt whose answer was lost
            assert await self._call(self._backend.compact_rev()) <= await self._call(self._backend.current_rev())
