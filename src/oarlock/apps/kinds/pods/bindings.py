"""`Bindings`: pods are bound to nodes by the collection of bindings too, an older way than the subresource.

Source: Kubernetes' registry of pods, ``LegacyBindingREST``. See also: `subresources`.
"""

from __future__ import annotations

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.core.objects import ObjectReference
from oarlock.meta.context import Context
from oarlock.registry.hooks.virtual_collection import VirtualCollection
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.views import builtins_of

__all__ = ["Binding", "Bindings"]


class Binding(Resource, group="", version="v1", generation=False, name_rule="path-segment"):
    """Says on which node the pod of this name runs."""

    target: ObjectReference = ObjectReference()


class Bindings(VirtualCollection[Binding]):
    """Binds the pod that has the name of a binding, as its subresource does; nothing of it is kept."""

    def __init__(self, late: LateClient) -> None:
        self._late = late

    async def create(self, new: Binding, ctx: Context, *, dry_run: bool = False) -> Binding:
        metadata = {key: value for key, value in builtins_of(new.metadata).items() if key in _GIVEN and value}
        body = {"metadata": metadata, "target": builtins_of(new.target)}
        query = {"dryRun": "All"} if dry_run else None
        name, namespace = new.metadata.name, ctx.target.namespace
        await self._late.client.post("v1/Pod", name, "binding", body, namespace=namespace, query=query)
        return new


_GIVEN = ("annotations", "labels", "name", "namespace")
