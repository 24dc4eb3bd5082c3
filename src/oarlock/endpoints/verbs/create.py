"""POST to a collection, or to the path of a custom resource that isn't there."""

from __future__ import annotations

from oarlock.endpoints import bodies, respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.pacing import offload
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.endpoints.verbs.initialized import once_initialized
from oarlock.meta import options_parse

__all__ = ["create"]


async def create(state: RequestState, route: ResourceRoute) -> Response:
    """Answer 201 with the object as it was created."""
    accepted = respond.accept(state, route)
    media = bodies.media_type(state)
    data = await state.request.read()
    options = options_parse.create_options(route.pairs)
    workers = route.resource.settings.workers
    body = await bodies.read_object(workers, data, media, route.entry, options.field_validation)
    if state.audit is not None:
        await offload(len(data), state.audit.add_request, body.tree)
    ctx = state.context(options=options, dry_run=options.dry_run)
    result = await route.resource.create(ctx, route.version, body, route.gate)
    item = await once_initialized(state, route, result)
    return await respond.item_response(state, route, item, accepted, 201)
