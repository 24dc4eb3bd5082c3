"""GET of a collection."""

from __future__ import annotations

from oarlock.endpoints import respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.lists.answers import list_response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.endpoints.verbs.initialized import check_may_see
from oarlock.meta import options_parse

__all__ = ["list_collection"]


async def list_collection(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with the selected objects, at the revision the options ask for, or a page of them."""
    accepted = respond.accept(state, route, collection=True)
    if accepted.as_kind == "Table":
        respond.include_object(route)
    options = options_parse.list_options(route.pairs, watch=False)
    await check_may_see(state, route, options)
    listing = await route.resource.list(state.context(options=options), route.version, options)
    return await list_response(state, route, listing, accepted)
