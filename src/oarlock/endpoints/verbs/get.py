"""GET of one object: joins the cache's bytes with the head of the answer."""

from __future__ import annotations

from oarlock.endpoints import respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.negotiation import JSON
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.route import Route
from oarlock.meta import options_parse
from oarlock.meta.errors import BadRequest
from oarlock.registry.served_resource import StoredVerbs

__all__ = ["get"]


async def get(state: RequestState, route: Route) -> Response:
    """Answer with the object, at least as new as ``resourceVersion``; without it, a consistent read."""
    resource = route.resource
    headers = state.request.headers
    if route.cached is not None and type(resource) is StoredVerbs and headers.get("accept", "") in _PLAIN:
        wait = None if route.cached else resource.watch_cache.fresh()
        if wait is not None:
            await wait
        entry = resource.cache.get(route.key)
        if (
            entry is not None
            and resource.cache.ready
            and not entry.broken
            and resource.definition.stored_as == route.target.version
            and len(entry.body) < respond.LARGE_BYTES
            and headers.get("user-agent", "")[:4] not in _PEOPLE
        ):
            return Response(200, [respond.JSON_HEADERS], b"%s%s\n" % (route.head, entry.body))
    return await _get(state, route)


_PLAIN = frozenset({"", "*/*", JSON})
_PEOPLE = frozenset({"curl", "Wget", "Mozi"})  # `respond.is_pretty` decides on indented JSON


async def _get(state: RequestState, route: Route) -> Response:
    accepted = respond.accept(state)
    if route.query("export") is not None:
        raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
    options = options_parse.get_options(route.pairs)
    assert route.resource is not None
    item = await route.resource.get(state.context(options=options), route.version, options.resource_version)
    return await respond.item_response(state, route, item, accepted)
