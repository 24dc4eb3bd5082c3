"""`IdentityLeases`: removes the identities of servers that have ended: their Leases, when nobody has renewed them.

Source: Kubernetes' garbage collector of API server identity leases, in behaviour.
"""

from __future__ import annotations

from oarlock.apps.kinds.coordination import Lease
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.meta.errors import Conflict, NotFound

NAMESPACE = "kube-system"
AGAIN_S = 60.0
"""How long until a lease without an end is looked at again."""


class IdentityLeases(
    Controller[Lease],
    name="apiserver-identity-lease-controller",
    namespace=NAMESPACE,
    label_selector="apiserver.kubernetes.io/identity=kube-apiserver",
):
    """Comes to each Lease when its time is over."""

    _clock: TimerClock

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        await super().run(client, clock)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        lease = self.informer.get(key.name, key.namespace)
        if lease is None:
            return None
        spec, metadata = lease.spec, lease.metadata
        if spec.renew_time is None or not spec.lease_duration_seconds:
            return Result(AGAIN_S)
        left_s = spec.renew_time.timestamp() + spec.lease_duration_seconds - self._clock.now()
        if left_s > 0:
            return Result(left_s)
        try:
            await self.client.delete(
                Lease,
                key.name,
                namespace=key.namespace,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
            )
        except (NotFound, Conflict):
            pass  # it is gone, or was renewed
        return None
