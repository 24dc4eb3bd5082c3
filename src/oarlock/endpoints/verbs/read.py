"""GET of one object, which joins the cache's bytes with the head of the answer, and of a collection.

Objects that wait for initializers are seen by who may initialize them (`check_may_see`). See also: ``registry.read``.
"""

from __future__ import annotations

from dataclasses import replace

from oarlock.endpoints import respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.lists.answers import list_response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import JSON
from oarlock.endpoints.routing.route import ResourceRoute, Verb
from oarlock.meta import options_parse
from oarlock.meta.errors import BadRequest
from oarlock.meta.options import GetOptions, ListOptions
from oarlock.registry.read.recipes import EntryItem, Item, MutationResult
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.write.initializing import INITIALIZE, is_uninitialized, until_initialized

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


_PLAIN = frozenset({"", "*/*", JSON})

_PEOPLE = frozenset({"curl", "Wget", "Mozi"})  # `respond.is_pretty` decides on indented JSON


async def get(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with the object, at least as new as ``resourceVersion``; without it, a consistent read."""
    accepted = respond.accept(state, route)
    if route.query("export") is not None:
        raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
    options = options_parse.get_options(route.pairs)
    await check_may_see(state, route, options)
    item = await route.resource.get(state.context(options=options), route.target.version, options.resource_version)
    return await respond.item_response(state, route, item, accepted)


def cached_get(resource: StoredResource, key: str, *, consistent: bool) -> Verb:
    """`get` of the object at `key` in the stored version: a small one as JSON is answered from the cache's bytes.

    `consistent` is False for ``resourceVersion=0``, which asks for whatever the cache has.
    """
    cache, fresh = resource.cache, resource.watch_cache.fresh

    async def get_from_cache(state: RequestState, route: ResourceRoute) -> Response:
        headers = state.request.headers
        if headers.get("accept", "") in _PLAIN:
            wait = fresh() if consistent else None
            if wait is not None:
                await wait
            entry = cache.get(key)
            if (
                entry is not None
                and cache.ready
                and not entry.broken
                and len(entry.body) < respond.LARGE_BYTES
                and headers.get("user-agent", "")[:4] not in _PEOPLE
            ):
                return Response(200, [respond.JSON_HEADERS], b"%s%s\n" % (route.head, entry.body))
        return await get(state, route)

    return get_from_cache


async def list_collection(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with the selected objects, at the revision the options ask for, or a page of them."""
    accepted = respond.accept(state, route, collection=True)
    if accepted.as_kind == "Table":
        respond.include_object(route)
    options = route.options
    if options is None:
        options = route.options = options_parse.list_options(route.pairs, watch=False)
    await check_may_see(state, route, options)
    listing = await route.resource.list(state.context(options=options), route.target.version, options)
    return await list_response(state, route, listing, accepted)
