"""What the server does with leases beyond storing them. Source: Kubernetes' validation of Lease."""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.apps.kinds.coordination import Lease
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.registry.hooks.collection import StoredCollection


class LeaseCollection(StoredCollection[Lease]):
    """Leases last for some time, and count upwards."""

    def validate(self, new: Lease, old: Lease | None, ctx: Context) -> Iterator[FieldError]:
        spec = new.spec
        if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
            yield Invalid("spec.leaseDurationSeconds", spec.lease_duration_seconds, "must be greater than 0")
        if spec.lease_transitions is not None and spec.lease_transitions < 0:
            yield Invalid("spec.leaseTransitions", spec.lease_transitions, "must be greater than or equal to 0")
