"""What initializers mean for requests: who may see objects that wait for theirs, and creates that wait for the end.

Must not know: what initializers do. See also: ``registry.initializing``.
"""

from __future__ import annotations

from dataclasses import replace

from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.meta.options import GetOptions, ListOptions
from oarlock.registry.read.recipes import EntryItem, Item, MutationResult
from oarlock.registry.write.initializing import INITIALIZE, is_uninitialized, until_initialized

__all__ = ["INCLUDE", "check_may_see", "once_initialized"]

INCLUDE = "includeUninitialized"
"""The query parameter of who wants to see uninitialized objects, and of a create that doesn't wait."""

ANSWERED_S = 0.25
"""How long before the deadline of a request its wait ends, so that there is time to say so, in seconds."""

LONGEST_S = 3600.0
"""How long a create waits that has no deadline, in seconds."""


async def check_may_see(state: RequestState, route: ResourceRoute, options: GetOptions | ListOptions) -> None:
    """Raises Forbidden if a user requests uninitialized objects without the right to initialize them."""
    if options.include_uninitialized and route.resource.definition.initializers:
        ctx = state.context(target=replace(state.target, subresource=""))
        await route.gate.may(ctx, INITIALIZE)


async def once_initialized(state: RequestState, route: ResourceRoute, result: MutationResult) -> Item:
    """What to answer a write with: an object that was created, once it is initialized.

    Raises what it is refused with, Timeout, and InternalError if it is deleted meanwhile.
    """
    item = result.item
    if not result.created or not isinstance(item, EntryItem) or not item.resource.definition.initializers:
        return item
    if not is_uninitialized(item.entry) or (route.query(INCLUDE) or "").lower() in ("true", "1"):
        return item
    left_s = state.deadline - ANSWERED_S - state.clock.monotonic()
    return EntryItem(item.resource, await until_initialized(item.resource, item.entry, min(left_s, LONGEST_S)))
