"""`Availability`: keeps the condition Available of APIServices: whether the server asks their backends.

See also: `forwarding`, which does. Source: k8s.io/kube-aggregator ``controllers/status``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from oarlock.apps.aggregation.backend import AVAILABLE, AggregatedVersion, BackendUnavailable
from oarlock.apps.aggregation.documents import BackendDocuments, fetch_documents
from oarlock.apps.aggregation.trust import BackendTrust
from oarlock.apps.kinds.apiregistration import APIService, APIServiceCondition, APIServiceStatus
from oarlock.client.client import Client
from oarlock.client.clock import Flag, TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.endpoints.catalog import CatalogError, Proxied
from oarlock.meta import errors
from oarlock.meta.kinds import GroupVersion
from oarlock.meta.metrics import MetricFamily
from oarlock.net.messages import HttpError
from oarlock.server.live_catalog import LiveCatalog

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


CHECK_S, CHECK_BROKEN_S = 30.0, 2.0
TIMEOUT_S = 5.0
MOST_BYTES = 4 * 1024 * 1024
_METRIC = "aggregator_unavailable_apiservice"
LOCAL = ("True", "Local", "Local APIServices are always available")
PASSED = ("True", "Passed", "all checks passed")


class Availability(Controller[APIService], name="apiservice-status", concurrency=8, timeout_s=60):
    """Asks each backend for its version, as a client would, when something changes and every 30 s."""

    _clock: TimerClock

    def __init__(self, trust: BackendTrust) -> None:
        super().__init__()
        self._trust = trust
        self._available: dict[str, bool] = {}
        self._turns: Counter[tuple[str, str]] = Counter()

    def metrics(self) -> Sequence[MetricFamily]:
        unavailable = {(name,): float(not is_so) for name, is_so in self._available.items()}
        return (
            MetricFamily(_METRIC, "APIServices that aren't available: 1, else 0.", unavailable, ("name",)),
            MetricFamily(
                f"{_METRIC}_total",
                "How often an APIService ceased to be available, and why.",
                dict(self._turns),
                ("name", "reason"),
                "counter",
            ),
        )

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        self._available.clear()  # another server may have led meanwhile
        await super().run(client, clock)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        api_service = self.informer.get(key.name)
        if api_service is None:
            self._available.pop(key.name, None)
            for turn in [turn for turn in self._turns if turn[0] == key.name]:
                del self._turns[turn]
            return None
        if api_service.spec.service is None:
            await self._update_condition(api_service, *LOCAL)
            return None
        found = await self._checked(api_service)
        await self._update_condition(api_service, *found)
        return Result(CHECK_S if found == PASSED else CHECK_BROKEN_S)

    async def _checked(self, api_service: APIService) -> tuple[str, str, str]:
        """The status, the reason and the message of the condition."""
        backend = AggregatedVersion(api_service, self.client, self._trust)
        path = f"/apis/{api_service.spec.group}/{api_service.spec.version}"
        try:
            address = await backend.moved()
            url = f"https://{address.host}:{address.port}{path}"
            answer = await backend.ask(path, "application/json", most_bytes=MOST_BYTES, timeout_s=TIMEOUT_S)
        except BackendUnavailable as error:
            return error.status, error.reason, error.message
        except HttpError as error:
            why = f'Get "{url}": {error}'
            return "False", "FailedDiscoveryCheck", f"failing or missing response from {url}: {why}"
        finally:
            backend.close()
        if 200 <= answer.status < 300:
            return PASSED
        why = f"bad status from {url}: {answer.status}"
        return "False", "FailedDiscoveryCheck", f"failing or missing response from {url}: {why}"

    def _note(self, name: str, is_available: bool, reason: str, *, before: bool) -> None:
        """Count a turn once: `before`, what the informer knows, may be behind what this controller has found."""
        if self._available.get(name, before) and not is_available:
            self._turns[name, reason] += 1
        self._available[name] = is_available

    async def _update_condition(self, api_service: APIService, status: str, reason: str, message: str) -> None:
        known = next(
            (c for c in (api_service.status.conditions if api_service.status else ()) if c.type == AVAILABLE), None
        )
        self._note(
            api_service.metadata.name, status == "True", reason, before=known is not None and known.status == "True"
        )
        if known is not None and (known.status, known.reason, known.message) == (status, reason, message):
            return
        now = datetime.fromtimestamp(self._clock.now(), UTC).replace(microsecond=0)
        since = known.last_transition_time if known is not None and known.status == status else now
        condition = APIServiceCondition(
            type=AVAILABLE, status=status, last_transition_time=since, reason=reason, message=message
        )

        def change(live: APIService) -> None:
            others = [c for c in (live.status.conditions if live.status else ()) if c.type != AVAILABLE]
            live.status = APIServiceStatus(conditions=[*others, condition])

        try:
            await self.client.change(APIService, api_service.metadata.name, change, subresource="status")
        except errors.NotFound:
            pass  # somebody has deleted it
