"""POST to a collection."""

from __future__ import annotations

from oarlock.endpoints import bodies, respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.route import Route
from oarlock.meta import options_parse

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
    outcome = await route.resource.create(ctx, route.version, body, route.gate)
    return await respond.item_response(state, route, outcome.item, accepted, 201)
