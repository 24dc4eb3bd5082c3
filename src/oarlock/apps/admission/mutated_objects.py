"""How the mutations of policies are applied to the objects of requests, and by which types they are merged."""

from __future__ import annotations

import asyncio
from typing import Any

from oarlock.meta.json_trees import Tree
from oarlock.patch.apply.schema import DEDUCED, ValueType, object_type
from oarlock.policy.admission.mutations import MutationTooLarge, mutated
from oarlock.registry.workers import Offload
from oarlock.registry.write.scale import scale_type
from oarlock.registry.write.write_request import AdmissionRequest
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.structural import nodes as structural

ON_THE_LOOP = 32 * 1024
"""Bytes of a patch that is applied on the event loop, if the object is small; larger ones are in a thread."""

MOST_TYPES = 256
"""Of how many versions of resources the merge types are remembered."""


class MergeTypes:
    """The merge types of one server, remembered as long as the definition is the same."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, str, str], tuple[ResourceDefinition, ValueType]] = {}

    def of(self, request: AdmissionRequest, version: str) -> ValueType:
        """The merge type of the object of a request in a version, as the definition calls it."""
        if request.body_kind is not None:
            return DEDUCED
        if request.ctx.target.subresource == "scale":
            return scale_type()
        definition = request.served.definition
        key = (definition.group, definition.names.plural, version)
        known = self._types.get(key)
        if known is None or known[0] is not definition:
            if len(self._types) >= MOST_TYPES:
                self._types.clear()
            type_ = object_type(structural.parse(definition.version(version).schema))
            known = self._types[key] = (definition, type_)
        return known[1]


async def applied(kind: str, value: Any, tree: Tree, type_: ValueType, offload: Offload) -> Tree:
    """`tree` after a mutation of a kind, to what its expression computed. Raises MutationFailed."""
    try:
        return await offload(mutated, kind, value, tree, type_, ON_THE_LOOP)
    except MutationTooLarge:
        return await asyncio.to_thread(mutated, kind, value, tree, type_)
