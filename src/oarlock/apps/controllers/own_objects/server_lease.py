"""`ServerLease`: the Lease in ``kube-system`` by which a server of a store tells the others that it runs.

Source: KEP-1965, kube-apiserver identity; k8s.io/kubernetes ``pkg/controlplane``.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from oarlock.apps.kinds.coordination import Lease, LeaseSpec
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.meta import errors
from oarlock.schema.types.shapes import ObjectMeta

__all__ = ["RENEW_S", "ServerLease"]

NAMESPACE = "kube-system"
IDENTITY = "apiserver.kubernetes.io/identity"
ADDRESS = "oarlock.dev/advertised-address"
KIND = "kube-apiserver"

RENEW_S = 10.0
VALID_S = 3600
"""How long a lease is valid that isn't renewed; then any server removes it."""
LATE_S = 3 * RENEW_S
"""A server that hasn't renewed its lease for so long is no endpoint any more."""


class ServerLease:
    """The lease of the server at `place`, its host and port: workers of one server share it."""

    def __init__(self, place: str, advertised: str) -> None:
        digest = hashlib.sha256(place.encode()).digest()[:16]
        self._name = "apiserver-" + base64.b32encode(digest).decode().rstrip("=").lower()
        self._holder = f"{self._name}_{uuid.uuid4()}"
        self._place = place
        self._advertised = advertised

    async def renew(self, client: Client, clock: TimerClock) -> Sequence[str]:
        """Renew it, and remove those that are no longer valid. Returns where the servers are that run."""
        servers: dict[str, str] = {}
        mine: Lease | None = None
        now = datetime.fromtimestamp(clock.now(), UTC)
        async for lease in client.list(Lease, namespace=NAMESPACE, label_selector=f"{IDENTITY}={KIND}"):
            age_s = _age_s(lease, now)
            if lease.metadata.name == self._name:
                mine = lease
            elif age_s > (lease.spec.lease_duration_seconds or VALID_S):
                await self._remove(client, lease)
            elif age_s <= LATE_S:
                servers[lease.metadata.name] = lease.metadata.annotations.get(ADDRESS, "")
        servers[self._name] = self._advertised
        await self._write(client, mine, now)
        return [address for address in servers.values() if address]

    async def _write(self, client: Client, mine: Lease | None, now: datetime) -> None:
        if mine is None:
            await self._create(client, now)
            return
        if mine.spec.holder_identity != self._holder and _age_s(mine, now) < LATE_S - RENEW_S / 2:
            return  # another worker renews it
        if mine.spec.holder_identity != self._holder:
            mine.spec.acquire_time = None
        mine.spec.holder_identity, mine.spec.renew_time = self._holder, now
        if self._advertised:
            mine.metadata.annotations[ADDRESS] = self._advertised
        try:
            await client.update(mine)
        except (errors.Conflict, errors.NotFound):
            pass  # the next renewal reads it again

    async def _create(self, client: Client, now: datetime) -> None:
        metadata = ObjectMeta(
            name=self._name,
            namespace=NAMESPACE,
            labels={IDENTITY: KIND, "kubernetes.io/hostname": self._place.rpartition(":")[0]},
            annotations={ADDRESS: self._advertised} if self._advertised else {},
        )
        spec = LeaseSpec(holder_identity=self._holder, lease_duration_seconds=VALID_S, renew_time=now)
        try:
            await client.create(Lease(metadata=metadata, spec=spec))
        except errors.AlreadyExists:
            pass  # another worker was faster

    async def _remove(self, client: Client, lease: Lease) -> None:
        try:
            await client.delete(
                Lease, lease.metadata.name, namespace=NAMESPACE, resource_version=lease.metadata.resource_version
            )
        except (errors.Conflict, errors.NotFound):
            pass  # it was renewed, or another server was faster


def _age_s(lease: Lease, now: datetime) -> float:
    renewed = lease.spec.renew_time
    return float("inf") if renewed is None else (now - renewed).total_seconds()
