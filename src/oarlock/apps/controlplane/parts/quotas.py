"""How much of what namespaces may have."""

from __future__ import annotations

from oarlock.apps.controllers.quota.admission import QuotaAdmission
from oarlock.apps.controllers.quota.charging import QuotaLedger
from oarlock.apps.controllers.quota.limiting import LimitRanger
from oarlock.apps.controllers.quota.limits import LimitRangeCollection
from oarlock.apps.controllers.quota.quotas import ResourceQuotaCollection
from oarlock.apps.controllers.quota.recount import QuotaRecount
from oarlock.apps.controlplane.part import ControlPlanePart
from oarlock.apps.kinds.quotas import LimitRange, ResourceQuota
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.server.live_catalog import LiveCatalog

__all__ = ["quotas_part"]


def quotas_part(live: LiveCatalog) -> ControlPlanePart:
    """How much of what namespaces may have. Asked last, so that nothing is charged that others refuse."""
    quotas, ranges, ledger = Informer(ResourceQuota), Informer(LimitRange), QuotaLedger()

    async def start(client: Client) -> None:
        ledger.client = client

    return ControlPlanePart(
        "quotas",
        serve=[ResourceQuotaCollection, LimitRangeCollection],
        admission=[LimitRanger(ranges), QuotaAdmission(quotas, ledger)],
        informers=[quotas, ranges],
        controllers={"resourcequota-controller": QuotaRecount(live)},
        needs=("namespaces",),
        start=start,
    )
