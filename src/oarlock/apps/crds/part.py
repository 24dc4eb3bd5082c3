"""All of the crds app, as a control plane takes it."""

from __future__ import annotations

from collections.abc import Callable

from oarlock.apps.controllers.definitions.cleanup import InstanceDeletion
from oarlock.apps.controllers.definitions.serving import DefinitionServing
from oarlock.apps.controllers.definitions.status import DefinitionNaming
from oarlock.apps.controlplane.part import ControlPlanePart
from oarlock.apps.crds.conversion import ConversionWebhooks
from oarlock.apps.crds.definitions import served_definitions
from oarlock.apps.kinds.apiextensions import CustomResourceDefinition
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.meta.kinds import GroupResource
from oarlock.registry.stored.records import DefinitionRecords
from oarlock.server.assembly.own_work import Runnable
from oarlock.server.live_catalog import LiveCatalog
from oarlock.storage.backend import Backend

__all__ = ["definitions_part"]


def definitions_part(live: LiveCatalog, store: Callable[[], Backend]) -> ControlPlanePart:
    """Resources that are defined by objects. The first part, so that all others find what is defined."""
    definitions = Informer(CustomResourceDefinition)
    webhooks = ConversionWebhooks()
    serving = DefinitionServing(live, definitions, webhooks.converter)

    async def forget(resource: GroupResource) -> None:
        await DefinitionRecords(store()).forget(resource)

    async def start(client: Client) -> None:
        await webhooks.start(client)
        await serving.start(client)

    controllers: dict[str, Runnable] = {
        "crd-serving": serving,
        "crd-naming": DefinitionNaming(live, definitions, serving),
        "crd-finalizer": InstanceDeletion(serving, forget),
        "crd-conversion": webhooks,
    }
    return ControlPlanePart(
        "crds",
        serve=[served_definitions()],
        informers=[definitions],
        controllers=controllers,
        everywhere=(*controllers,),
        fills_catalog=True,
        start=start,
    )
