"""`VersionForwarding`: keeps the catalog of a server as the APIServices in the store say.

Every server of a store does this for itself. What backends tell of themselves is fetched in the background.
See also: `availability`, which decides whether a backend is asked at all.
"""

from __future__ import annotations

import asyncio
import logging

from oarlock.apps.aggregation.backend import AggregatedVersion
from oarlock.apps.aggregation.documents import BackendDocuments, fetch_documents
from oarlock.apps.aggregation.trust import BackendTrust
from oarlock.apps.kinds.apiregistration import APIService
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.flag import Flag
from oarlock.client.informers.informer import Informer
from oarlock.endpoints.catalog import CatalogError, Proxied
from oarlock.meta.kinds import GroupVersion
from oarlock.server.live_catalog import LiveCatalog

__all__ = ["VersionForwarding"]

log = logging.getLogger("oarlock.aggregation")

REFRESH_S = 60.0
"""How often backends are asked for their documents."""


class VersionForwarding:
    """Forwards what remote APIServices name, on one server. A `Runnable`.

    `informer` has the APIServices in the store; it is listed in ``APIServer(informers=…)``.
    """

    def __init__(self, live: LiveCatalog, informer: Informer[APIService], trust: BackendTrust) -> None:
        self._live = live
        self._informer = informer
        self._trust = trust
        self._served: dict[str, tuple[AggregatedVersion, BackendDocuments]] = {}
        self._due: dict[str, None] = {}
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._wake = Flag()
        informer.add_handler(self._changed)

    def _changed(self, old: APIService | None, new: APIService | None) -> None:
        api_service = new or old
        if api_service is not None and (_remote(old) or _remote(new)):
            self._due[api_service.metadata.name] = None
            self._wake.set()

    async def start(self, client: Client) -> None:
        """Serve everything that is registered now. Called before the server is ready; waits for no backend."""
        await self._informer.observers.delivered()
        self._served.clear()
        self._fetching.clear()
        self._due.update(
            dict.fromkeys(api_service.metadata.name for api_service in self._informer if _remote(api_service))
        )
        await self._exchange(client)

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled."""
        refreshing = asyncio.ensure_future(self._refresh(clock))
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._exchange(client)
        finally:
            refreshing.cancel()
            for task in self._fetching.values():
                task.cancel()
            for version, _ in self._served.values():
                version.close()

    async def _refresh(self, clock: TimerClock) -> None:
        for name in self._served:
            self._fetch(name)
        while True:
            await clock.sleep(REFRESH_S)
            for name in self._served:
                self._fetch(name)

    async def _exchange(self, client: Client) -> None:
        """Bring the catalog to what the store says."""
        while self._due:
            name = next(iter(self._due))
            del self._due[name]
            stored, served = self._informer.get(name), self._served.get(name)
            if stored is None or not _remote(stored):
                if served is not None:
                    await self._remove(name)
                continue
            if served is None:
                version = AggregatedVersion(stored, client, self._trust)
                await self._put(name, version, BackendDocuments(version.version))
                self._fetch(name)
                continue
            version, documents = served
            before, version.api_service = version.api_service, stored
            if _priorities(before) != _priorities(stored):
                await self._put(name, version, documents)
            if before.spec != stored.spec or before.status != stored.status:
                self._fetch(name)

    async def _put(self, name: str, version: AggregatedVersion, documents: BackendDocuments) -> None:
        spec = version.api_service.spec
        entry = Proxied(
            spec.group, spec.version, version.answer, documents, spec.group_priority_minimum, spec.version_priority
        )
        try:
            await self._live.change(put=[entry])
        except CatalogError as error:
            log.error("the APIService %s isn't served: %s", name, error)
            return
        self._served[name] = (version, documents)

    async def _remove(self, name: str) -> None:
        version, _ = self._served.pop(name)
        task = self._fetching.pop(name, None)
        if task is not None:
            task.cancel()
        version.close()
        await self._live.change(remove=[GroupVersion(version.group, version.version)])

    def _fetch(self, name: str) -> None:
        """Ask the backend for its documents, unless that is being done."""
        task = self._fetching.get(name)
        if task is None or task.done():
            self._fetching[name] = asyncio.ensure_future(self._fetched(name))

    async def _fetched(self, name: str) -> None:
        served = self._served.get(name)
        if served is None:
            return
        version, before = served
        documents = await fetch_documents(version, before)
        if documents != before and self._served.get(name) == (version, before):
            await self._put(name, version, documents)


def _remote(api_service: APIService | None) -> bool:
    return api_service is not None and api_service.spec.service is not None


def _priorities(api_service: APIService) -> tuple[int, int]:
    return api_service.spec.group_priority_minimum, api_service.spec.version_priority
