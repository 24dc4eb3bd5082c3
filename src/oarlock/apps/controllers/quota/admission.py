"""`QuotaAdmission`: nothing is created for which a quota has no room. Kubernetes' ``ResourceQuota`` plugin.

It is asked when all others have agreed, so that what they refuse isn't charged. See also: `charging`.
"""

from __future__ import annotations

from functools import partial

from oarlock.apps.controllers.quota.amounts import Amounts
from oarlock.apps.controllers.quota.charging import Charge, QuotaLedger
from oarlock.apps.controllers.quota.usage import PODS, WITH_AMOUNTS, usage_of
from oarlock.apps.kinds.quotas import ResourceQuota
from oarlock.client.informers.informer import Informer
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource
from oarlock.policy.admission.reserving import ReservingPlugin
from oarlock.registry.write.claims import Claims
from oarlock.registry.write.gate import AdmissionRequest

__all__ = ["RESIZE", "QuotaAdmission"]

RESIZE = (PODS, "resize")
"""The one part of an object by which it may use more."""

_UNCOUNTED = frozenset((GroupResource("", "events"), GroupResource("events.k8s.io", "events")))


class QuotaAdmission(ReservingPlugin):
    """`quotas` are those of the server, which tell whether a namespace has any."""

    name = "ResourceQuota"

    def __init__(self, quotas: Informer[ResourceQuota], ledger: QuotaLedger) -> None:
        self._quotas = quotas
        self._ledger = ledger
        quotas.add_index("namespace", lambda quota: (quota.metadata.namespace or "",))

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        if not target.namespace or request.served.virtual is not None or not len(self._quotas):
            return False
        resource = target.group_resource
        if target.subresource and (resource, target.subresource) != RESIZE:
            return False
        counted = request.operation == "CREATE" or (request.operation == "UPDATE" and resource in WITH_AMOUNTS)
        return counted and resource not in _UNCOUNTED and bool(self._quotas.by_index("namespace", target.namespace))

    async def reserve(self, request: AdmissionRequest, new: Tree, old: Tree | None, claims: Claims) -> None:
        target = request.ctx.target
        used: Amounts = usage_of(target.group_resource, new)
        if old is not None:
            before = usage_of(target.group_resource, old)
            used = {name: amount - before[name] if name in before else amount for name, amount in used.items()}
            used = {name: amount for name, amount in used.items() if amount}
            if not used:
                return
        name = target.name or new["metadata"].get("name", "")
        charge = Charge(target.group_resource, name, new, used, claims.dry_run)
        claims.add(partial(self._ledger.release, target.namespace, charge))
        await self._ledger.charge(target.namespace, charge)
