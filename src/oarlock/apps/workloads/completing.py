"""`CompletingPlugin`: the base of Kubernetes' admission plugins that complete new objects of one kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Final

from oarlock.apps.kinds.common.trees import at
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource
from oarlock.registry.conversion.converter import copy_tree
from oarlock.registry.workers import Offload
from oarlock.registry.write.gate import NOT_AT_HAND, AdmissionRequest, Hub

__all__ = ["PODS", "CompletingPlugin"]

PODS = GroupResource("", "pods")
MIRROR: Final = "kubernetes.io/config.mirror"


class CompletingPlugin(ABC):
    """An ``AdmissionPlugin`` that changes new objects of `resource`; of pods (the default) not a kubelet's mirrors."""

    name = ""
    waits = True
    resource: ClassVar[GroupResource] = PODS
    only_kind: ClassVar[str] = "Pod"

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        about = not target.subresource and target.group_resource == self.resource
        return about and request.operation == "CREATE"

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        if new is None or (self.resource == PODS and MIRROR in at(new, "metadata.annotations", {})):
            return new
        made = copy_tree(new)
        await self.complete(made)
        return made

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        return None

    @abstractmethod
    async def complete(self, new: Tree) -> None:
        """Change a new object in place. Raises Forbidden."""
