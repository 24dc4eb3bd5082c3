"""`ValidatingPlugin`: what members of the admission chain have in common that only refuse. See also: `chain`."""

from __future__ import annotations

from oarlock.meta.json_trees import Tree
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import AdmissionRequest

__all__ = ["ValidatingPlugin"]


class ValidatingPlugin:
    """An ``AdmissionPlugin`` that changes nothing. A subclass says what it `handles`, and its `validate` refuses."""

    waits = True

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        """The object as it is."""
        return new
