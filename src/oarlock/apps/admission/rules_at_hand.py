"""`RulesAtHand`: an admission plugin that lets nothing be written while the rules for it aren't known."""

from __future__ import annotations

from collections.abc import Callable

from oarlock.meta.errors import ServiceUnavailable
from oarlock.meta.json_trees import Tree
from oarlock.policy.admission.chain import ValidatingPlugin
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub


class RulesAtHand(ValidatingPlugin):
    """Refuses writes while `unknown` says why the rules aren't known."""

    name = "ClusterRules"
    waits = False
    mutates = True
    """It is asked then, too, so that it refuses before another plugin goes by rules that aren't known."""

    def __init__(self, unknown: Callable[[], str]) -> None:
        self._unknown = unknown

    def handles(self, request: AdmissionRequest) -> bool:
        return bool(self._unknown())

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        why = self._unknown()
        if why:
            raise ServiceUnavailable(f"nothing can be written at the moment: {why}")
        return new

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        """Allow the request: `mutate` comes first, and refuses."""
