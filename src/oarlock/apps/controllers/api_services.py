"""The controllers of APIServices: which are available, which the server registers itself, the certificate for backends.

See also: ``apps.aggregation``, which forwards requests; ``server.serving.certificates``, where the certificate is kept.
Source: k8s.io/kube-aggregator ``controllers/status``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oarlock.apps.aggregation.backend import AVAILABLE, AggregatedVersion, BackendUnavailable
from oarlock.apps.aggregation.documents import BackendDocuments, fetch_documents
from oarlock.apps.aggregation.trust import BackendTrust, ProxyCertificate
from oarlock.apps.kinds.apiregistration import (
    AUTOMANAGED,
    GROUP,
    APIService,
    APIServiceCondition,
    APIServiceSpec,
    APIServiceStatus,
)
from oarlock.client.client import Client
from oarlock.client.clock import Flag, SystemClock, TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.client.transport import TransportError
from oarlock.codec import json
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.endpoints.catalog import Catalog, CatalogError, CatalogGroup, Proxied
from oarlock.meta import errors
from oarlock.meta.errors import StatusError
from oarlock.meta.kinds import BUILT_IN_GROUPS, GroupVersion
from oarlock.meta.metrics import MetricFamily
from oarlock.net.futures import shared
from oarlock.net.messages import HttpError
from oarlock.server.description import LiveCatalog
from oarlock.server.serving.certificates.issuing import FRONT_PROXY_NAME, FrontProxyFiles, ensure_front_proxy
from oarlock.server.serving.certificates.tls import BadCertificateFile

log = logging.getLogger("oarlock.aggregation")
FIRST_S = 1.0
"""How long after the start it is made if nobody has needed it by then: clients of a new server come first. It is made
all the same, because a backend may start before its APIService is written, and reads whom to believe at its start."""

RENEWAL_S = 3600.0
AGAIN_S = 10.0
PublishTrust = Callable[[Client, Mapping[str, str]], Awaitable[None]]
"""Publishes whom backends may believe, as data of their ConfigMap, beside what others have published."""

_HEADERS = {
    "requestheader-allowed-names": FRONT_PROXY_NAME,
    "requestheader-username-headers": "x-remote-user",
    "requestheader-uid-headers": "x-remote-uid",
    "requestheader-group-headers": "x-remote-group",
    "requestheader-extra-headers-prefix": "x-remote-extra-",
}
"""What ``aggregation.forwarding`` sends."""


class MadeProxyCertificate(ProxyCertificate):
    """Made in the folder that `directory` gives, when it is first needed; None if it shall have none. A `Runnable`.

    Its authority is published before the certificate is used.
    """

    def __init__(self, directory: Callable[[], Path | None], publish: PublishTrust) -> None:
        super().__init__()
        self._directory = directory
        self._publish = publish
        self._clock: TimerClock = SystemClock()
        self._wanted = True
        self._making: asyncio.Task[bool] | None = None

    def begin(self) -> None:
        """A server starts: another one than before may have another folder."""
        self.files, self.problem, self._wanted, self._making = None, "", True, None

    async def ready(self, client: Client) -> None:
        if self.files is None and self._wanted:
            await self._renewed(client)

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Renew it in time, until cancelled."""
        self._clock = clock
        try:
            await clock.sleep(FIRST_S)
            while True:
                complete = await self._renewed(client)
                await clock.sleep(RENEWAL_S if complete else AGAIN_S)
        finally:
            if self._making is not None:
                self._making.cancel()

    async def _renewed(self, client: Client) -> bool:
        """Make it or renew it, once for all who wait; a waiter that gives up doesn't end it for the others."""
        if self._making is None or self._making.done():
            self._making = asyncio.ensure_future(self._renew(client))
        return await shared(self._making)

    async def _renew(self, client: Client) -> bool:
        """Whether all is done. Doesn't raise: who needs the certificate is told `problem`, and so is the log, once."""
        directory = self._directory()
        self._wanted = directory is not None
        if directory is None:
            return True
        try:
            made = await asyncio.to_thread(ensure_front_proxy, directory, self._clock.now())
        except BadCertificateFile as error:
            if self.problem != str(error):
                self.problem = str(error)
                log.error("%s: backends don't know this server", error)
            return False
        try:
            await self._publish(client, _data_of(made))
        except (StatusError, TransportError) as error:
            log.warning("the authority in %s could not be published, trying again: %s", directory, error)
            complete = False
        else:
            complete = True
        self.problem, self.files = "", (made.certificate, made.key)
        return complete


def _data_of(made: FrontProxyFiles) -> dict[str, str]:
    lists = {key: json.encode([name]).decode() for key, name in _HEADERS.items()}
    return {"requestheader-client-ca-file": made.authorities.decode(), **lists}


ON_START, ALWAYS = "onstart", "true"
CUSTOM_GROUP, CUSTOM_VERSION = 1000, 100
BUILT_IN_VERSION = 15
RETRY_S = 5.0


class LocalRegistration:
    """A `Runnable`. `informer` has the APIServices in the store."""

    def __init__(self, live: LiveCatalog, informer: Informer[APIService]) -> None:
        self._live = live
        self._informer = informer
        self._started: set[str] = set()
        """The names that have been registered since the server started."""
        self._wake = Flag()
        informer.add_handler(lambda old, new: self._wake.set() if new is None else None)

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled."""
        self._started.clear()
        catalog = await self._live.after(None)
        while True:
            self._wake.clear()
            try:
                await self._register(client, catalog)
            except (errors.StatusError, ConnectionError):
                await clock.sleep(RETRY_S)
                continue
            catalog = await self._live.after_or(catalog, self._wake)

    async def _register(self, client: Client, catalog: Catalog) -> None:
        await self._informer.observers.delivered()
        wanted = _wanted(catalog)
        for name, (spec, label) in wanted.items():
            stored = self._informer.get(name)
            if label == ON_START and name in self._started:
                continue
            await self._keep(client, name, spec, label, stored)
            if label == ON_START:
                self._started.add(name)
        for stored in list(self._informer):
            label = stored.metadata.labels.get(AUTOMANAGED, "")
            if label == ALWAYS and stored.metadata.name not in wanted and stored.spec.service is None:
                await _delete(client, stored)

    async def _keep(
        self, client: Client, name: str, spec: APIServiceSpec, label: str, stored: APIService | None
    ) -> None:
        tree: dict[str, Any] = {"name": name, "labels": {AUTOMANAGED: label}}
        try:
            if stored is None:
                await client.create(APIService(metadata=tree, spec=spec))  # type: ignore[arg-type]
            elif stored.metadata.labels.get(AUTOMANAGED) == label and stored.spec != spec:
                await client.change(APIService, name, lambda live: setattr(live, "spec", spec))
        except (errors.AlreadyExists, errors.NotFound, errors.Conflict):
            pass  # another server of the store was faster


async def _delete(client: Client, stored: APIService) -> None:
    try:
        await client.delete(APIService, stored.metadata.name)
    except errors.NotFound:
        pass  # another server of the store was faster


def _wanted(catalog: Catalog) -> dict[str, tuple[APIServiceSpec, str]]:
    """The APIServices of what is served here, by name, each with its label."""
    found = {}
    for group in catalog.groups.values():
        if group.name == GROUP:
            continue
        versions = [version for version in group.versions if version not in group.proxied]
        for position, version in enumerate(reversed(versions)):
            spec, label = _registered(group, version, position)
            found[f"{version}.{group.name}"] = (spec, label)
    return found


def _registered(group: CatalogGroup, version: str, position: int) -> tuple[APIServiceSpec, str]:
    """The APIService of a version; `position` counts from the least preferred one."""
    custom = not any(resource.definition.typed for resource in group.resources.values())
    built_in = BUILT_IN_GROUPS.get(group.name)
    if not group.name:
        priorities = (built_in.priority if built_in is not None else CUSTOM_GROUP, 1)
    elif built_in is not None:
        priorities = (built_in.priority, BUILT_IN_VERSION * (position + 1))
    else:
        priorities = (CUSTOM_GROUP, CUSTOM_VERSION)
    spec = APIServiceSpec(
        group=group.name, version=version, group_priority_minimum=priorities[0], version_priority=priorities[1]
    )
    return spec, ALWAYS if custom else ON_START


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
