"""The one watch of the backend that a process has: started, restarted, and applied in slices.

A watch that breaks, or stands still while the store goes on, is begun again at its last revision, so no event is lost.
There is a gap, which the cache handles, when that revision was compacted, or when the store has lost history
meanwhile and is in another epoch.

Must not know: keys, resources, entries. See also: `watch_cache`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.storage.backend import Backend, Batch, Compacted, Rev, StorageError, StoreEvent, Unavailable, Watch
from oarlock.storage.pacing import SLICE_S

__all__ = ["CacheLimits", "Follower"]


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """Limits of one `WatchCache`. The first three, of the event ring, are those of Kubernetes' watch cache."""

    ring_min: int = 100
    """Events a resource keeps at least room for."""
    ring_max: int = 102_400
    """Events a resource keeps at most."""
    ring_age_s: float = 75.0
    """The ring grows while its oldest event is younger than this: a client that reconnects after its
    connection was lost (a minute, plus a few seconds of back-off) still finds its place."""
    ring_bytes: int = 64 << 20
    """Bytes of encoded objects a ring may keep alive; a resource updated all the time must not hold gigabytes."""
    ring_warm: int = 256
    """The newest events keep what encoders noted on them; older ones are encoded again when somebody asks."""
    history_revs: int = 10_000
    """How many revisions before the loaded list are asked of the backend, so that a restart doesn't end every watch."""
    roots: int = 128
    """Past states of a resource kept for the next page of a list."""
    undo: int = 1_000
    """How many keys may be set back to answer a list at a past revision from memory (about 5 µs each)."""
    page: int = 2_000
    """Keys per request to the backend while loading: bounds the bytes that are held twice."""
    slice_s: float = SLICE_S
    """How long loading may keep the loop before it gives it back."""
    slice_events: int = 256
    """How many events are applied in one go; a longer batch is applied over several turns of the loop."""
    nudge_s: float = 0.1
    """How often the backend is asked for progress while a reader waits."""
    fresh_s: float = 3.0
    """How long a linearizable read waits for the cache to catch up (Kubernetes: 3 s)."""
    retry_s: float = 0.05
    """The first pause before a lost watch is begun again; doubles up to 20 times this."""

    @property
    def again(self) -> Backoff:
        """The pauses before a lost watch is begun again."""
        return Backoff(self.retry_s, self.retry_s * 20)


log = logging.getLogger("oarlock.storage.cache")


class Follower:
    """Calls `apply` with events in revision order and the revision they are complete up to, or `on_gap`.

    A batch longer than ``limits.slice_events`` is applied over several turns of the loop; later batches wait behind it.
    """

    def __init__(
        self,
        backend: Backend,
        span: tuple[str, str],
        limits: CacheLimits,
        apply: Callable[[Sequence[StoreEvent], Rev], None],
        on_gap: Callable[[StorageError], None],
    ) -> None:
        self._backend = backend
        self._span = span
        self._limits = limits
        self._apply = apply
        self._on_gap = on_gap
        self._watch: Watch | None = None
        self._rev: Rev = 0  # of the last event or progress that was delivered
        self._epoch = ""
        self._backlog: deque[Batch] = deque()
        self._draining: asyncio.Handle | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._down = False
        self._pauses = limits.again.pauses()

    async def begin(self, after: Rev, epoch: str) -> None:
        """Watch everything after `after`, a revision of `epoch`, in place of any earlier watch.

        Raises what the backend raises.
        """
        await self.close()
        self._rev = after
        self._epoch = epoch
        await self._open()

    async def _open(self) -> None:
        start, end = self._span
        watch = await self._backend.watch(start, end, after=self._rev, deliver=self._deliver, failed=self._on_failure)
        self._watch = watch

    async def close(self) -> None:
        """Stop the watch; nothing is applied after this returns."""
        self._down = False
        self._backlog.clear()
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None
        task, self._reopening = self._reopening, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait((task,))
        self._stop()

    def late(self, rev: Rev) -> None:
        """The store is at `rev`, and has been for a while: unless the watch has delivered that, begin it again."""
        if self._rev < rev and self._stop():
            self._on_failure(Unavailable(f"it stands still at revision {self._rev}, and the store is at {rev}"))

    def _stop(self) -> bool:
        """Close the watch; whether there was one."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        return watch is not None

    def _deliver(self, batch: Batch) -> None:
        if batch.rev > self._rev:
            self._rev = batch.rev
        if self._pauses.failures:
            self._pauses.reset()
        if self._backlog or len(batch.events) > self._limits.slice_events:
            self._backlog.append(batch)
            if self._draining is None:
                self._drain()
        else:
            self._pass_on(batch.events, batch.rev)

    def _pass_on(self, events: Sequence[StoreEvent], rev: Rev) -> None:
        try:
            self._apply(events, rev)
        except Exception as error:
            # It may be applied in part: only loading again gives a known state.
            log.exception("applying events up to revision %d failed", rev)
            self._backlog.clear()
            self._stop()
            self._on_gap(StorageError(f"applying events up to revision {rev} failed: {error}"))

    def _drain(self) -> None:
        """Apply the next slice of the waiting events, and schedule the rest."""
        self._draining = None
        room = self._limits.slice_events
        while self._backlog and room > 0:
            batch = self._backlog.popleft()
            head, rest = batch.events[:room], batch.events[room:]
            room -= max(len(head), 1)
            if rest:
                self._backlog.appendleft(Batch(rest, batch.rev))
                self._pass_on(head, head[-1].rev)
            else:
                self._pass_on(head, batch.rev)
        if self._backlog:
            self._draining = asyncio.get_running_loop().call_soon(self._drain)

    def _on_failure(self, error: StorageError) -> None:
        self._watch = None
        if isinstance(error, Compacted):
            log.warning("the watch cache fell behind what the store keeps and loads again: %s", error)
            self._on_gap(error)
            return
        self._down = True
        if self._reopening is None or self._reopening.done():
            log.warning("the watch of the store was lost and is begun again: %s", error)
            self._reopening = asyncio.get_running_loop().create_task(self._reopen(), name="cache: watch again")

    async def _reopen(self) -> None:
        while self._down:
            await asyncio.sleep(self._pauses.take())
            try:
                self._down = False
                await self._open()
                # Asked once the watch is there: what it delivers from now on can't be of a later epoch unnoticed.
                epoch = await self._backend.epoch()
            except Compacted as error:
                self._on_gap(error)
            except StorageError:
                self._stop()
                self._down = True
            else:
                if epoch != self._epoch and not self._down:
                    log.warning("the store is in another epoch, and the watch cache loads again")
                    self._stop()
                    self._on_gap(StorageError("the store is in another epoch"))
