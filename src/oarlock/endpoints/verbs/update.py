"""PUT to an object, its status or its scale."""

from __future__ import annotations

from functools import partial

from oarlock.endpoints import bodies, respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.pacing import offload
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.endpoints.verbs.initialized import once_initialized
from oarlock.meta import options_parse
from oarlock.meta.json_trees import Tree
from oarlock.registry.write.body import DecodedBody
from oarlock.registry.write.recipe import Change

__all__ = ["update"]


async def update(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with the new object; 201 if the resource allows to create by PUT, and did."""
    accepted = respond.accept(state, route)
    data = await state.request.read()
    options = options_parse.update_options(route.pairs)
    media = bodies.media_type(state)
    decode = partial(bodies.object_body, data, media, route.entry, options.field_validation)
    workers = route.resource.settings.workers
    first = [await bodies.read_object(workers, data, media, route.entry, options.field_validation)]
    offload_bytes = first[0].offload_bytes
    if state.audit is not None:
        await offload(len(data), state.audit.add_request, first[0].tree)

    def make(live: Tree) -> DecodedBody:
        return first.pop() if first else decode()  # again, for a retry after a conflict

    ctx = state.context(options=options, dry_run=options.dry_run)
    result = await route.write(ctx, Change(make, replaces=True, offload_bytes=offload_bytes))
    item = await once_initialized(state, route, result)
    return await respond.item_response(state, route, item, accepted, 201 if result.created else 200)
