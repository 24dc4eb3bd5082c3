"""`DeviceAdminAccess`: claims for devices that others use already are made in the namespaces of administrators only.

Source: Kubernetes' strategies of resource.k8s.io, ``AuthorizedForAdmin``.
"""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.meta.errors import InvalidObject, NotFound
from oarlock.meta.fielderrors import Forbidden
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub

_GROUP: Final = "resource.k8s.io"
_SPECS: Final = {"resourceclaims": "spec", "resourceclaimtemplates": "spec.spec"}
_LABEL: Final = "resource.kubernetes.io/admin-access"
_WHY: Final = f"admin access to devices requires the `{_LABEL}: true` label on the containing namespace"


class DeviceAdminAccess:
    """An ``AdmissionPlugin`` that refuses access for administrators elsewhere; it is a part of what claims mean."""

    waits = True
    only_kinds = ("ResourceClaim", "ResourceClaimTemplate")
    only_operations = ("CREATE",)

    def __init__(self, late: LateClient) -> None:
        self._late = late

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        return target.group == _GROUP and target.resource in _SPECS and not target.subresource

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        return new

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        target = request.ctx.target
        path = f"{_SPECS[target.resource]}.devices.requests"
        asking = [i for i, request in enumerate(at(new, path, ())) if at(request, "exactly.adminAccess")]
        if new is None or not asking or await self._is_of_administrators(target.namespace):
            return
        errors = [Forbidden(f"{path}[{i}].adminAccess", _WHY) for i in asking]
        raise InvalidObject(GroupKind(_GROUP, target.kind), at(new, "metadata.name", ""), errors)

    async def _is_of_administrators(self, namespace: str) -> bool:
        try:
            found = await self._late.client.get(Namespace, namespace)
        except NotFound:
            return False
        return found.metadata.labels.get(_LABEL) == "true"
