"""`EtcdFeed`: the one watch of etcd that a process has, over all keys of the store, passed on to the process's watches.

Its position is the revision up to which all events have come. When its stream breaks it goes on at another member,
where it was; watches don't notice. Before, it looks whether the store is still the same one: if it is in another epoch,
or its revision went back, every watch fails with `Compacted`.

Members from 3.4.31 and 3.5.13 on tell truthfully how far they are. Older ones may promise too much, so progress then is
a write to a key of the backend's own, whose event comes through the same watch after all earlier ones.

See also: `replay`, for events before the position; `epochs`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from oarlock.net.backoff import Backoff
from oarlock.storage.backend import Compacted, Rev, StorageError, StoreEvent
from oarlock.storage.etcd.client import EtcdClient, Rpcs
from oarlock.storage.etcd.epochs import Epochs
from oarlock.storage.etcd.keys import KeyMap
from oarlock.storage.etcd.messages import Message, messages
from oarlock.storage.etcd.replay import WatchStream, event_of
from oarlock.storage.grpc.calls import GrpcError
from oarlock.storage.watchers import Watchers

__all__ = ["EtcdFeed", "tells_progress"]

GRACE_S = 0.05
"""How long events that are on their way may take before progress is asked for."""
AGAIN = Backoff(0.05, 1.0)
"""The first pause before a broken stream is begun again; doubles up to 20 times this."""

log = logging.getLogger("oarlock.storage.etcd")


def tells_progress(version: str) -> bool:
    """Whether a member of this version may be believed when it is asked for progress."""
    try:
        major, minor, patch = (int(part) for part in version.partition("-")[0].split("."))
    except ValueError:
        return False
    least = {(3, 4): 31, (3, 5): 13}.get((major, minor))
    return (major, minor) > (3, 5) if least is None else patch >= least


class EtcdFeed:
    """Begins with the first watch. `mark` writes to the marker key and returns the write's revision."""

    def __init__(self, client: EtcdClient, keys: KeyMap, epochs: Epochs, mark: Callable[[], Awaitable[Rev]]) -> None:
        self.watchers = Watchers()
        self.rev: Rev = 0
        self.event_rev: Rev = 0
        """The revision of the last event in the store, whoever's key it is; 0 while it isn't known."""
        self._client = client
        self._keys = keys
        self._epochs = epochs
        self._mark = mark
        self._task: asyncio.Task[None] | None = None
        self._stream: WatchStream | None = None
        self._truthful = False
        self._gap = False
        self._epoch = ""
        self._asking = asyncio.Lock()
        self._beginning = asyncio.Lock()
        self._waiters: dict[asyncio.Future[None], Rev] = {}

    async def begin(self) -> None:
        """Begin to follow, from now on. Does nothing when it has begun. Raises `StorageError`."""
        async with self._beginning:
            if self._task is None:
                self._epoch, self.rev = await self._epochs.look()
                self._task = asyncio.get_running_loop().create_task(self._run(), name="etcd: watch")

    async def close(self) -> None:
        self.watchers.close()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._advance(self.rev, closing=True)

    async def reach(self, rev: Rev, timeout_s: float) -> bool:
        """Wait until everything up to `rev` has come."""
        if self.rev >= rev:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = rev
        try:
            await asyncio.wait((waiter,), timeout=timeout_s)
        finally:
            self._waiters.pop(waiter, None)
        return self.rev >= rev

    async def progress(self, rev: Rev) -> None:
        """Make the watches deliver, soon, a batch with at least `rev`, which the store has reached."""
        if self._task is None:
            return
        async with self._asking:
            if not await self.reach(rev, GRACE_S):
                if self._truthful and self._stream is not None:
                    self._stream.ask()
                else:
                    await self._mark()
                return
        self.watchers.publish((), self.rev)

    # Following

    async def _run(self) -> None:
        pauses = AGAIN.pauses()
        while True:
            before = self.rev
            try:
                await self._same_store()
                await self._follow()
            except Compacted as error:
                log.warning("etcd has compacted what this process hasn't seen yet, up to %d", error.compact_rev)
                self._gap = True
            except StorageError as error:
                log.warning("the watch of the store was lost and is begun again: %s", error)
            except Exception:
                # Whatever it was: without this watch the process would stand still, and what was delivered isn't known.
                log.exception("following etcd failed; all watches end and begin again")
                self._gap = True
            if self.rev != before:
                pauses.reset()
            await asyncio.sleep(pauses.take())

    async def _same_store(self) -> None:
        """Before a stream is begun: go on from the position if the store is in the same epoch, else from now."""
        epoch = self._epoch
        state = await self._epochs.look()
        self._epoch = state.epoch
        if self._gap or state.epoch != epoch:
            self._gap = False
            self.rev, self.event_rev = state.rev, 0
            self.watchers.fail(Compacted(state.rev, state.rev))

    async def _follow(self) -> None:
        stream = await self._begin_stream()
        self._stream = stream
        try:
            self._truthful = await self._is_truthful(stream)
            pieces: list[Message] = []
            while True:
                answer = await stream.read()
                pieces += answer.events
                if answer.fragment:
                    # What follows may be of the last revision too.
                    last = pieces[-1].kv.mod_revision
                    self._deliver([piece for piece in pieces if piece.kv.mod_revision < last], last - 1)
                    pieces = [piece for piece in pieces if piece.kv.mod_revision == last]
                elif pieces:
                    self._deliver(pieces, pieces[-1].kv.mod_revision)
                    pieces = []
                elif self._truthful and not answer.created and answer.header.revision >= self.rev:
                    self._advance(answer.header.revision)
                    self.watchers.publish((), self.rev)
        finally:
            self._stream, self._truthful = None, False
            stream.cancel()

    async def _begin_stream(self) -> WatchStream:
        """A stream of what comes after the position: of the future only, at once; of the past, after etcd's next look.

        What begins in the past begins at the position itself, whose event is left out: at the next revision etcd
        wouldn't notice that this one is compacted.
        """
        endpoint = self._client.choose()
        for start in (self.rev + 1, self.rev):
            stream = WatchStream(self._client, endpoint, self._keys.all, start)
            try:
                created = await stream.read()
            except BaseException:
                stream.cancel()
                raise
            if start == self.rev or created.header.revision < start:
                break
            stream.cancel()
        return stream

    async def _is_truthful(self, stream: WatchStream) -> bool:
        try:
            status = await self._client.ask(stream.endpoint, Rpcs.STATUS, messages.StatusRequest())
        except GrpcError:
            return False
        return tells_progress(status.version)

    def _deliver(self, pieces: Sequence[Message], rev: Rev) -> None:
        reached = self.rev
        events: list[StoreEvent] = []
        for piece in pieces:
            if piece.kv.mod_revision <= reached:
                continue
            if piece.kv.key == self._keys.epoch:
                self._epochs.adopt(piece.kv)
                self._end_epoch(events, piece.kv.mod_revision)
                events = []
                continue
            event = event_of(piece, self._keys, _everything)
            if event is not None:
                events.append(event)
        if pieces:
            self.event_rev = max(self.event_rev, pieces[-1].kv.mod_revision)
        if rev > self.rev or events:
            self._advance(rev)
            self.watchers.publish(events, rev)

    def _end_epoch(self, events: list[StoreEvent], rev: Rev) -> None:
        """Another epoch began at `rev`: what is watched from before it has come to its end."""
        self._advance(rev - 1)
        self.watchers.publish(events, rev - 1)
        self._advance(rev)
        for watch in self.watchers:
            if watch.last < rev:
                watch.fail(Compacted(rev, rev))

    def _advance(self, rev: Rev, *, closing: bool = False) -> None:
        if rev > self.rev:
            self.rev = rev
            self._epochs.saw(rev)
        for waiter, wanted in list(self._waiters.items()):
            if (closing or wanted <= self.rev) and not waiter.done():
                waiter.set_result(None)


def _everything(key: str) -> bool:
    return True
