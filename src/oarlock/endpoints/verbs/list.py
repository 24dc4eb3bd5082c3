"""GET of a collection."""

from __future__ import annotations

from oarlock.endpoints import respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.lists import list_response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.route import Route
from oarlock.meta import options_parse
from oarlock.meta.options import ListOptions
from oarlock.registry.results import Listing

__all__ = ["list_collection", "listing"]


async def list_collection(state: RequestState, route: Route) -> Response:
    """Answer with the selected objects, at the revision the options ask for, or a page of them."""
    accepted = respond.accept(state, collection=True)
    if accepted.as_kind == "Table":
        respond.include_object(route)
    options = options_parse.list_options(route.pairs, watch=False)
    return await list_response(state, route, await listing(state, route, options), accepted)


async def listing(state: RequestState, route: Route, options: ListOptions) -> Listing:
    assert route.resource is not None
    return await route.resource.list(state.context(options=options), route.version, options)
