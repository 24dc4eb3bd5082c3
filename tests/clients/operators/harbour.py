"""An operator with `Controller`: a ConfigMap for each berth, owned by it, and a status that says so."""

from __future__ import annotations

from oarlock import Model, Resource
from oarlock.apps.kinds.core.objects import ConfigMap
from oarlock.controllers import Controller, ObjectKey, set_controller_reference, write_status
from oarlock.meta.errors import AlreadyExists
from oarlock.schema.types.shapes import ObjectMeta


class BerthSpec(Model):
    """How deep the water is."""

    depth: int


class BerthStatus(Model):
    """Who is there."""

    boats: int = 0


class Berth(Resource, group="harbour.example.com", version="v1", status_subresource=True):
    """A place for boats."""

    spec: BerthSpec
    status: BerthStatus | None = None


class Berths(Controller[Berth], owns=[ConfigMap]):
    """Lists the boats of each berth."""

    async def reconcile(self, key: ObjectKey) -> None:
        berth = self.informer.get(key.name, key.namespace)
        if berth is None or berth.metadata.deletion_timestamp:
            return
        if self.informers[ConfigMap].get(key.name, key.namespace) is None:
            metadata = ObjectMeta(name=key.name, namespace=key.namespace)
            boats = ConfigMap(metadata=metadata, data={"depth": str(berth.spec.depth)})
            try:
                await self.client.create(set_controller_reference(berth, boats))
            except AlreadyExists:
                return  # the informer is behind
        await write_status(self.client, berth, BerthStatus(boats=berth.spec.depth * 2))


controllers = [Berths()]
