"""`InstanceDeletion`: deletes the objects of a CustomResourceDefinition that is being deleted, then lets it go.

Source: Kubernetes' finalizing controller of CustomResourceDefinitions. See also: ``crds.resources``, which
serves no creates meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from oarlock.apps.controllers.definitions.serving import DefinitionServing
from oarlock.apps.crds.conditions import ESTABLISHED, TERMINATING, ConditionValue, condition_of, is_true, set_condition
from oarlock.apps.kinds.apiextensions import CLEANUP_FINALIZER, CustomResourceDefinition
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.kinds import ResourceRef
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.controllers.watched import any_of, deletion_changed, generation_changed
from oarlock.meta.errors import NotFound, StatusError
from oarlock.meta.kinds import GroupResource

FAILED = "InstanceDeletionFailed"
KEPT = Result(1.0, longest_s=60.0)
"""Objects that somebody's finalizers keep are looked at again."""


class InstanceDeletion(
    Controller[CustomResourceDefinition],
    name="crd-finalizer",
    when=any_of(deletion_changed, generation_changed),
):
    """Objects that have finalizers are waited for. The resource is withdrawn before its definition goes.

    `forget` is told of each resource of which nothing is stored any more.
    """

    _clock: TimerClock

    def __init__(self, serving: DefinitionServing, forget: Callable[[GroupResource], Awaitable[None]]) -> None:
        self._serving = serving
        self._forget = forget

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        await super().run(client, clock)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        crd = self.informer.get(key.name)
        if crd is None or not crd.metadata.deletion_timestamp or CLEANUP_FINALIZER not in crd.metadata.finalizers:
            return None
        if not is_true(crd, ESTABLISHED):
            await self._update_condition(key.name, ConditionValue(TERMINATING, "False", "NeverEstablished", _NEVER))
            await self._remove_finalizer(key.name)
            return None
        before = condition_of(crd, TERMINATING)
        if before is None or before.reason != FAILED:
            await self._update_condition(
                key.name, ConditionValue(TERMINATING, "True", "InstanceDeletionInProgress", _IN_PROGRESS)
            )
        try:
            left = await self._delete_objects(crd)
        except StatusError as error:
            why = f"could not list instances: {error.message}"
            await self._update_condition(key.name, ConditionValue(TERMINATING, "True", FAILED, why))
            raise
        if left:
            await self._update_condition(
                key.name, ConditionValue(TERMINATING, "True", "InstanceDeletionInProgress", _IN_PROGRESS)
            )
            return KEPT
        await self._update_condition(
            key.name, ConditionValue(TERMINATING, "False", "InstanceDeletionCompleted", _COMPLETED)
        )
        await self._serving.caught_up()
        await self._forget(GroupResource(crd.spec.group, crd.status.accepted_names.plural))
        await self._remove_finalizer(key.name)
        return None

    async def _delete_objects(self, crd: CustomResourceDefinition) -> int:
        """Delete all objects; returns how many are left."""
        await self._serving.caught_up()
        stored = next((version.name for version in crd.spec.versions or () if version.storage), "")
        names, namespaced = crd.status.accepted_names, crd.spec.scope == "Namespaced"
        kind = ResourceRef(GroupResource(crd.spec.group, names.plural), stored, names.kind, namespaced)
        namespaces: dict[str, None] = {}
        async for obj in self.client.list(kind):
            namespaces[obj["metadata"].get("namespace", "")] = None
        for namespace in namespaces:
            await self.client.delete_collection(kind, namespace=namespace)
        left = 0
        async for _ in self.client.list(kind):
            left += 1
        return left

    async def _update_condition(self, name: str, value: ConditionValue) -> None:
        def change(crd: CustomResourceDefinition) -> None:
            set_condition(crd, value, self._clock.now())

        try:
            await self.client.change(CustomResourceDefinition, name, change, subresource="status")
        except NotFound:
            pass  # it is gone already

    async def _remove_finalizer(self, name: str) -> None:
        def change(crd: CustomResourceDefinition) -> None:
            crd.metadata.finalizers = [
                finalizer for finalizer in crd.metadata.finalizers if finalizer != CLEANUP_FINALIZER
            ]

        try:
            await self.client.change(CustomResourceDefinition, name, change)
        except NotFound:
            pass  # another server was faster


_NEVER = "resource was never established"
_IN_PROGRESS = "CustomResource deletion is in progress"
_COMPLETED = "removed all instances"
