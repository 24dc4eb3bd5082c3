"""`DefinitionsPart`: all of the crds app, as a control plane takes it.

See also: ``controlplane.parts``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oarlock.apps.controllers.definitions.cleanup import InstanceDeletion
from oarlock.apps.controllers.definitions.serving import DefinitionServing
from oarlock.apps.controllers.definitions.status import DefinitionNaming
from oarlock.apps.crds.conversion import ConversionWebhooks
from oarlock.apps.crds.definitions import served_definitions
from oarlock.apps.kinds.apiextensions import CustomResourceDefinition
from oarlock.client.client import Client
from oarlock.client.informer import Informer
from oarlock.meta.kinds import GroupResource
from oarlock.registry.stored.records import DefinitionRecords
from oarlock.server.assembly.own_work import Runnable
from oarlock.server.live_catalog import LiveCatalog
from oarlock.storage.backend import Backend

__all__ = ["DefinitionsPart"]


class DefinitionsPart:
    """What `APIServer` is given for CustomResourceDefinitions; `live` is that server's, and `store` once it runs."""

    def __init__(self, live: LiveCatalog, store: Callable[[], Backend]) -> None:
        definitions = Informer(CustomResourceDefinition)
        webhooks = ConversionWebhooks()
        serving = DefinitionServing(live, definitions, webhooks.converter)

        async def forget(resource: GroupResource) -> None:
            await DefinitionRecords(store()).forget(resource)

        self.serve: Sequence[Any] = [served_definitions()]
        self.informers: Sequence[Informer[Any]] = [definitions]
        self.controllers: Mapping[str, Runnable] = {
            "crd-serving": serving,
            "crd-naming": DefinitionNaming(live, definitions, serving),
            "crd-finalizer": InstanceDeletion(serving, forget),
            "crd-conversion": webhooks,
        }
        self._begins = (webhooks.start, serving.start)

    async def start(self, client: Client) -> None:
        """Serve what is defined already."""
        for begin in self._begins:
            await begin(client)
