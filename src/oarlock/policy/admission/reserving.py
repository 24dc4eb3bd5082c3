"""`ReservingPlugin`: members of the admission chain that take something for the final object. See also: `chain`."""

from __future__ import annotations

from abc import ABC, abstractmethod

from oarlock.meta.json_trees import Tree
from oarlock.policy.admission.validating import ValidatingPlugin
from oarlock.registry.served import Claims
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub

__all__ = ["ReservingPlugin"]


class ReservingPlugin(ValidatingPlugin, ABC):
    """An ``AdmissionPlugin`` that neither changes nor judges: what it takes, it takes when all others have agreed."""

    @abstractmethod
    async def reserve(self, request: AdmissionRequest, new: Tree, old: Tree | None, claims: Claims) -> None:
        """Take what the object needs, and tell `claims`. Raises `errors.StatusError` when there isn't enough."""

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        """Allow the request: only `reserve` refuses."""
