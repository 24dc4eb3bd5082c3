"""POST to a collection."""

from __future__ import annotations

from oarlock.endpoints import bodies, respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.route import Route
from oarlock.meta import options_parse
from oarlock.registry import create as recipe
from oarlock.registry import virtual_writes
from oarlock.registry.virtual_resource import VirtualResource

__all__ = ["create"]


async def create(state: RequestState, route: Route) -> Response:
    """Answer 201 with the object as it was created."""
    accepted = respond.accept(state)
    media = bodies.media_type(state)
    data = await state.request.read()
    options = options_parse.create_options(route.pairs)
    assert route.entry is not None
    assert route.gate is not None
    assert route.resource is not None
    workers = route.resource.settings.workers
    body = await bodies.read_object(workers, data, media, route.entry, options.field_validation)
    ctx = state.context(options=options, dry_run=options.dry_run)
    if isinstance(route.resource, VirtualResource):
        outcome = await virtual_writes.create(route.resource, ctx, route.version, body, route.gate)
    else:
        resource = route.stored()
        assert resource is not None
        outcome = await recipe.create(resource, ctx, route.version, body, route.gate)
    return await respond.item_response(state, route, outcome.item, accepted, 201)
