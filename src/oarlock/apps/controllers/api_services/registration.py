"""`LocalRegistration`: keeps an APIService for each group and version that the server itself serves.

Those of its own kinds are made when it starts, and are a user's from then on; those of custom resources are kept
as they should be, as long as they have the label. Source: k8s.io/kube-aggregator ``controllers/autoregister``.
"""

from __future__ import annotations

from typing import Any

from oarlock.apps.kinds.apiregistration import AUTOMANAGED, GROUP, APIService, APIServiceSpec
from oarlock.client.client import Client
from oarlock.client.clock import Flag, TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.endpoints.catalog import Catalog, CatalogGroup
from oarlock.meta import errors
from oarlock.meta.built_in import BUILT_IN_GROUPS
from oarlock.server.live_catalog import LiveCatalog

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
