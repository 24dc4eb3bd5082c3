"""`AddressUpkeep`: takes back addresses of services that are gone, and repairs what doesn't fit together.

An IPAddress whose service is gone or has another address is removed, also one that a server left behind which died; a
service whose address nobody recorded gets its IPAddress. A service that is stored needs no claims of its node ports.
Source: Kubernetes' repair of cluster IPs. See also: ``workloads.addresses`` and ``workloads.node_ports``, which
give them.
"""

from __future__ import annotations

import asyncio
import logging

from oarlock.apps.kinds.common.trees import at
from oarlock.apps.workloads.addresses import (
    ADDRESS,
    MANAGER,
    SERVICE,
    GoingServices,
    address_object,
    addresses_of,
    release_address,
)
from oarlock.apps.workloads.node_ports import NodePortClaims, node_ports_of
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.meta.errors import AlreadyExists, NotFound, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import parse_rfc3339
from oarlock.storage.backend import StorageError

log = logging.getLogger("oarlock.server")

REPAIR_S = 180.0
"""How often everything is compared."""

GONE_S = 0.5
"""How long after it began a deletion is looked at: by then the service is gone, or waits for finalizers."""

YOUNG_S = 60.0
"""So long an address may wait for its service to be written."""


class AddressUpkeep:
    """The controller; each server of a store runs it. `going` are services that are being deleted."""

    def __init__(self, claims: NodePortClaims, going: GoingServices) -> None:
        self._claims = claims
        self._going = going

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled."""
        compares = False  # services that there are at the start are compared all at once
        freed: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
        stored: asyncio.Queue[Tree] = asyncio.Queue()

        def changed(old: Tree | None, new: Tree | None) -> None:
            has_new = compares and new is not None and addresses_of(new) != addresses_of(old or {})
            if new is not None and (has_new or node_ports_of(new)):
                stored.put_nowait(new)
            lost = set(addresses_of(old or {})) - set(addresses_of(new or {}))
            if lost:
                freed.put_nowait(tuple(lost))

        services = client.informer(SERVICE)
        services.add_handler(changed)
        async with services:
            await services.synced()
            compares = True
            await asyncio.gather(
                self._release(client, freed),
                self._release_going(clock, freed),
                self._settle(client, stored),
                self._repair_again(client, clock),
            )

    async def _release(self, client: Client, freed: asyncio.Queue[tuple[str, ...]]) -> None:
        while True:
            for address in await freed.get():
                await release_address(client, address)
                await asyncio.sleep(0)  # there may be thousands, and requests of a server to itself don't wait

    async def _release_going(self, clock: TimerClock, freed: asyncio.Queue[tuple[str, ...]]) -> None:
        """Look at what services have that are being deleted, once they should be gone."""
        while True:
            await self._going.some.wait()
            await clock.sleep(GONE_S)
            for service in self._going.take():
                freed.put_nowait(tuple(addresses_of(service)))
                await self._settled(service)

    async def _settle(self, client: Client, stored: asyncio.Queue[Tree]) -> None:
        """A service is stored: its addresses are its own, and what was claimed for it needs no claims any more."""
        while True:
            service = await stored.get()
            try:
                for address in addresses_of(service):
                    await _record(client, address, service)
            except StatusError as error:
                log.warning("the addresses of a service are looked at later: %s", error)
            await self._settled(service)

    async def _settled(self, service: Tree) -> None:
        try:
            await self._claims.settle(service)
        except StorageError as error:
            log.warning("claims of node ports stay until they vanish: %s", error)
        await asyncio.sleep(0)

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
        async for ip_address in client.list(ADDRESS):
            metadata, name = ip_address["metadata"], ip_address["metadata"]["name"]
            known.add(name)
            mine = at(metadata, "labels", {}).get("ipaddress.kubernetes.io/managed-by") == MANAGER
            young = now - parse_rfc3339(metadata["creationTimestamp"]) < YOUNG_S
            if mine and name not in owned and not young:
                try:
                    await client.delete(ADDRESS, name, uid=metadata["uid"])
                except NotFound:
                    pass
        for address in owned.keys() - known:
            await _record(client, address, owned[address])


async def _record(client: Client, address: str, service: Tree) -> None:
    """Have an IPAddress say whose an address is, if none does."""
    metadata = service["metadata"]
    try:
        await client.get(ADDRESS, address)
    except NotFound:
        try:
            await client.create(address_object(address, metadata["namespace"], metadata["name"]))
        except AlreadyExists:
            pass
