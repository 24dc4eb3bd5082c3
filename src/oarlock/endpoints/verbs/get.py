"""GET of one object: joins the cache's bytes with the head of the answer."""

from __future__ import annotations

from oarlock.endpoints import respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.negotiation import JSON
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute, Verb
from oarlock.endpoints.verbs.initialized import check_may_see
from oarlock.meta import options_parse
from oarlock.meta.errors import BadRequest
from oarlock.registry.stored.resource import StoredResource

__all__ = ["cached_get", "get"]

_PLAIN = frozenset({"", "*/*", JSON})
_PEOPLE = frozenset({"curl", "Wget", "Mozi"})  # `respond.is_pretty` decides on indented JSON


async def get(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with the object, at least as new as ``resourceVersion``; without it, a consistent read."""
    accepted = respond.accept(state, route)
    if route.query("export") is not None:
        raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
    options = options_parse.get_options(route.pairs)
    await check_may_see(state, route, options)
    item = await route.resource.get(state.context(options=options), route.version, options.resource_version)
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
