"""generateName: makes up names until one is free.

Must not know: how an object is created. See also: `create`, whose recipe tries each name. Source:
KEP-4420.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from oarlock.meta.context import Context
from oarlock.meta.errors import AlreadyExists
from oarlock.meta.names import generate_name
from oarlock.registry.conversion.converter import copy_tree
from oarlock.registry.read.results import MutationResult
from oarlock.registry.settings import Settings
from oarlock.registry.write.body import DecodedBody
from oarlock.schema.definition import ResourceDefinition

__all__ = ["NAME_ATTEMPTS", "with_generated_name"]

NAME_ATTEMPTS = 8
"""How many generated names are tried before giving up."""


async def with_generated_name(
    body: DecodedBody,
    ctx: Context,
    definition: ResourceDefinition,
    settings: Settings,
    attempt: Callable[[DecodedBody], Awaitable[MutationResult]],
) -> MutationResult:
    """The result of `attempt` with the first generated name that isn't taken.

    Each attempt gets a copy of the body, and starts with the warnings there were before. Raises AlreadyExists when
    every name was taken, and what `attempt` raises.
    """
    base, name = body.tree["metadata"]["generateName"], body.tree["metadata"].get("name")
    if name:
        try:
            return await attempt(body)
        except AlreadyExists as taken:
            raise taken.although_generated() from None
    workers = settings.workers
    pristine, mark = await workers.go_on(body.offload_bytes, copy_tree, body.tree), ctx.notes.mark()
    for _ in range(NAME_ATTEMPTS):
        ctx.notes.rewind(mark)
        name = generate_name(base, settings.random(5))
        tree = await workers.go_on(body.offload_bytes, copy_tree, pristine)
        tree["metadata"]["name"] = name
        try:
            return await attempt(DecodedBody(tree, body.wording, offload_bytes=body.offload_bytes))
        except AlreadyExists:
            continue
    raise AlreadyExists(definition.group_resource, name).although_generated()
