"""The small parts: configuration, coordination, flow control, owners, quotas, migration of stored objects."""

from __future__ import annotations

from oarlock.apps.controllers.flow_control import FlowControl
from oarlock.apps.controllers.garbage.collector import GarbageCollector
from oarlock.apps.controllers.garbage.owners_admission import OwnerPermission
from oarlock.apps.controllers.migration import StorageMigration, StorageMigrations
from oarlock.apps.controllers.own_objects import IdentityLeases
from oarlock.apps.controllers.quota.charging import QuotaLedger
from oarlock.apps.controllers.quota.limiting import LimitRanger, QuotaAdmission
from oarlock.apps.controllers.quota.limits import LimitRangeCollection, ResourceQuotaCollection
from oarlock.apps.controllers.quota.recount import QuotaRecount
from oarlock.apps.controlplane.collections.coordination import EventCollection, LeaseCollection
from oarlock.apps.controlplane.collections.flow_schemas import FlowSchemaCollection, PriorityLevelCollection
from oarlock.apps.controlplane.collections.secrets import ConfigMapCollection, SecretCollection
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.kinds.events import Event
from oarlock.apps.kinds.quotas import LimitRange, ResourceQuota
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.server.description import LiveCatalog


def configuration_part() -> ControlPlanePart:
    """Configuration and secrets of programs."""
    return ControlPlanePart("configuration", serve=[ConfigMapCollection, SecretCollection])


def coordination_part() -> ControlPlanePart:
    """What programs agree on and tell: leases and events."""
    return ControlPlanePart(
        "coordination",
        serve=[LeaseCollection, EventCollection, Event],
        controllers={"apiserver-identity-lease-controller": IdentityLeases()},
    )


def flow_control_part() -> ControlPlanePart:
    """How requests share the server."""
    return ControlPlanePart(
        "flowcontrol",
        serve=[FlowSchemaCollection, PriorityLevelCollection],
        controllers={"priority-and-fairness-controller": FlowControl()},
        everywhere=("priority-and-fairness-controller",),
    )


def garbage_collection_part(around: PartSurroundings) -> ControlPlanePart:
    """What becomes of objects whose owners are gone, and who sets owners."""
    return ControlPlanePart(
        "garbagecollection",
        admission=[OwnerPermission(around.access, around.live)],
        controllers={"garbage-collector-controller": GarbageCollector(around.live)},
    )


def migration_part(around: PartSurroundings) -> ControlPlanePart:
    """Stored objects, rewritten on request."""
    return ControlPlanePart(
        "storagemigration",
        serve=[StorageMigrations],
        controllers={"storage-version-migrator-controller": StorageMigration(around.migrate)},
    )


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
