"""`AddressUpkeep`: takes back addresses of services that are gone, and repairs what doesn't fit together.

An IPAddress whose service is gone or has another address is removed, also one that a refused write left behind; a
service whose address nobody recorded gets its IPAddress. A service that is stored needs no claims of its node ports.
Source: Kubernetes' repair of cluster IPs. See also: `addresses` and `node_ports`, which give them.
"""

from __future__ import annotations

import asyncio
import logging

from oarlock.apps.workloads.addresses import ADDRESS, MANAGER, SERVICE, address_object, addresses_of
from oarlock.apps.workloads.node_ports import NodePortClaims, node_ports_of
from oarlock.apps.workloads.trees import Tree, at
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.meta.errors import AlreadyExists, NotFound
from oarlock.meta.times import parse_rfc3339
from oarlock.storage.backend import StorageError

__all__ = ["AddressUpkeep"]

log = logging.getLogger("oarlock.server")

REPAIR_S = 180.0
"""How often everything is compared."""

YOUNG_S = 60.0
"""So long an address may wait for its service to be written."""


class AddressUpkeep:
    """The controller; each server of a store runs it."""

    def __init__(self, claims: NodePortClaims) -> None:
        self._claims = claims

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled."""
        freed: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
        stored: asyncio.Queue[Tree] = asyncio.Queue()

        def changed(old: Tree | None, new: Tree | None) -> None:
            if new is not None and node_ports_of(new):
                stored.put_nowait(new)
            lost = set(addresses_of(old or {})) - set(addresses_of(new or {}))
            if lost:
                freed.put_nowait(tuple(lost))

        services = client.informer(SERVICE)
        services.add_handler(changed)
        async with services:
            await services.synced()
            await asyncio.gather(self._release(client, freed), self._settle(stored), self._repair_again(client, clock))

    async def _release(self, client: Client, freed: asyncio.Queue[tuple[str, ...]]) -> None:
        while True:
            for address in await freed.get():
                try:
                    found = await client.get(ADDRESS, address)
                    owner = await _owner(client, found)
                    if owner is None or address not in addresses_of(owner):
                        await client.delete(ADDRESS, address, uid=found["metadata"]["uid"])
                except NotFound:
                    pass

    async def _settle(self, stored: asyncio.Queue[Tree]) -> None:
        while True:
            service = await stored.get()
            try:
                await self._claims.settle(service)
            except StorageError as error:
                log.warning("claims of node ports stay until they vanish: %s", error)

    async def _repair_again(self, client: Client, clock: TimerClock) -> None:
        while True:
            await self.repair(client, clock.now())
            await clock.sleep(REPAIR_S)

    async def repair(self, client: Client, now: float) -> None:
        """Compare all services and addresses once."""
        owned: dict[str, Tree] = {}
        async for service in client.list(SERVICE):
            owned.update((address, service) for address in addresses_of(service))
        known: set[str] = set()
        async for one in client.list(ADDRESS):
            metadata, name = one["metadata"], one["metadata"]["name"]
            known.add(name)
            mine = at(metadata, "labels", {}).get("ipaddress.kubernetes.io/managed-by") == MANAGER
            young = now - parse_rfc3339(metadata["creationTimestamp"]) < YOUNG_S
            if mine and name not in owned and not young:
                try:
                    await client.delete(ADDRESS, name, uid=metadata["uid"])
                except NotFound:
                    pass
        for address in owned.keys() - known:
            metadata = owned[address]["metadata"]
            try:
                await client.create(address_object(address, metadata["namespace"], metadata["name"]))
            except AlreadyExists:
                pass


async def _owner(client: Client, address: Tree) -> Tree | None:
    parent = at(address, "spec.parentRef", {})
    try:
        return await client.get(SERVICE, parent.get("name", ""), namespace=parent.get("namespace", ""))
    except NotFound:
        return None
