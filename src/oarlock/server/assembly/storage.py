"""`ServerStorage`: the store of a server: its backend, timed and maybe encrypted, the watch cache, and their upkeep.

`LiveObjects` reads accounts, secrets and pods in it for authentication. See also: `run`, which opens and closes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oarlock.net.backoff import Backoff
from oarlock.registry.live_resources import LiveResources
from oarlock.registry.served_resource import StoredVerbs
from oarlock.registry.stored.form import object_key
from oarlock.server.config import ServerConfig
from oarlock.server.files.store_mark import SeenStore, StoreMark
from oarlock.server.metrics.counts import StoreMetrics, TimedBackend
from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.watch_cache import WatchCache
from oarlock.storage.care.snapshot import must_be_complete
from oarlock.storage.compactor import Compactor

if TYPE_CHECKING:
    from oarlock.client.clock import TimerClock
    from oarlock.server.encryption import ServerEncryption


class LiveObjects:
    """Implements `StoredObjects`. `attach` it when the server has its resources."""

    def __init__(self) -> None:
        self._live: LiveResources | None = None
        self._cache: WatchCache | None = None

    def attach(self, live: LiveResources, cache: WatchCache) -> None:
        """Read from these from now on."""
        self._live, self._cache = live, cache

    def revision(self, resource: str, namespace: str, name: str) -> int:
        entry = self._entry(resource, namespace, name)
        return 0 if entry is None else entry.rev

    def read(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        stored, entry = self._stored(resource), self._entry(resource, namespace, name)
        if stored is None or entry is None or entry.broken:
            return None
        return stored.tree_now(entry, stored.definition.hub)

    async def fresh(self) -> None:
        waiting = None if self._cache is None else self._cache.fresh()
        if waiting is not None:
            await waiting

    def _entry(self, resource: str, namespace: str, name: str) -> Entry | None:
        stored = self._stored(resource)
        return None if stored is None else stored.cache.get(object_key(stored.form.prefix, namespace, name))

    def _stored(self, resource: str) -> StoredVerbs | None:
        stored = None if self._live is None else self._live.resources.get(("", resource))
        return stored if isinstance(stored, StoredVerbs) else None


log = logging.getLogger("oarlock.server")

AGAIN = Backoff(60.0, 3600.0)
"""Seconds before the next attempt when the store was too busy: doubled each time, up to the second figure."""

MAX_FINDINGS_SHOWN = 3


class StoreIntegrity:
    """`findings` is what is wrong with the store, one line each, as far as it has been checked."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.findings: Sequence[str] = ()

    async def run(self) -> None:
        """Check the store, again later if it is too busy; log what is found."""
        pauses = AGAIN.pauses()
        while True:
            try:
                self.findings = await self._backend.check(quick=True)
                break
            except StorageError as error:
                log.info("checking the store failed, next attempt in %g s: %s", pauses.next_s, error)
            await asyncio.sleep(pauses.take())
        for finding in self.findings:
            log.error("the store is damaged: %s", finding)
        if self.findings:
            log.error("run `oarlock storage check` for the complete list, and restore the store from a backup")

    async def test(self) -> str:
        """The health check: what is wrong, ``""`` if nothing is known to be."""
        more = len(self.findings) - MAX_FINDINGS_SHOWN
        shown = "; ".join(self.findings[:MAX_FINDINGS_SHOWN])
        return f"{shown}; and {more} more" if more > 0 else shown


class ServerStorage:
    """`opened` is whether the backend has been started."""

    def __init__(
        self, config: ServerConfig, backend: Backend, clock: TimerClock, encryption: ServerEncryption | None
    ) -> None:
        self.metrics = StoreMetrics()
        self.encryption = encryption
        self.backend = TimedBackend(backend if encryption is None else encryption.backend, self.metrics, clock)
        self.cache = WatchCache(self.backend, clock=clock)
        self.integrity = StoreIntegrity(self.backend)
        self.opened = False
        self._config = config
        self._clock = clock
        self._mark: StoreMark | None = None

    def remember(self) -> None:
        """Remember in the data directory what is seen of the store, to find out when it was put back."""
        file, cache = self._config.store_mark, self.cache
        self._mark = StoreMark(file, lambda: SeenStore(cache.epoch, cache.rev), self.fresh, self.backend)

    async def open(self) -> None:
        """Start the backend. Raises StorageError."""
        await self.backend.start()
        self.opened = True
        await must_be_complete(self.backend)
        if self._mark is not None:
            await self._mark.recognise(self.backend)

    def upkeep(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What is to run in the background while the store is open."""
        interval_s = self._config.compaction_interval_s
        if interval_s:
            yield Compactor(self.backend, self._clock, interval_s=interval_s).run()
        yield self.integrity.run()
        if self._mark is not None:
            yield self._mark.run()
        if self.encryption is not None and self.encryption.reloads:
            yield self.encryption.follow()

    async def fresh(self) -> None:
        """Returns when the watch cache has everything that the store has."""
        waiting = self.cache.fresh()
        if waiting is not None:
            await waiting

    async def close(self) -> None:
        """Close the cache and the backend. Safe after a failed `open`."""
        if self._mark is not None and self.opened:
            await self._mark.save()
        await self.cache.close()
        await self.backend.close()
