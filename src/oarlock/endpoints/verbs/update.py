"""PUT to an object, its status or its scale."""

from __future__ import annotations

from oarlock.endpoints import bodies, respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.route import Route
from oarlock.endpoints.verbs.scale import scaled
from oarlock.meta import options_parse
from oarlock.meta.context import Context
from oarlock.registry.body import DecodedBody
from oarlock.registry.results import MutationResult
from oarlock.registry.served import Tree
from oarlock.registry.update import Change

__all__ = ["carry_out", "update"]


async def update(state: RequestState, route: Route) -> Response:
    """Answer with the new object; 201 if the resource allows to create by PUT, and did."""
    accepted = respond.accept(state)
    data = await state.request.read()
    options = options_parse.update_options(route.pairs)
    media = bodies.media_type(state)
    assert route.entry is not None
    what = (data, media, route.entry, options.field_validation)
    assert route.resource is not None
    unspent = [await bodies.read_object(route.resource.settings.workers, *what)]
    weight = unspent[0].weight

    def make(live: Tree) -> DecodedBody:
        return unspent.pop() if unspent else bodies.object_body(*what)  # again, for a retry after a conflict

    ctx = state.context(options=options, dry_run=options.dry_run)
    outcome = await carry_out(route, ctx, Change(make, replaces=True, weight=weight))
    return await respond.item_response(state, route, outcome.item, accepted, 201 if outcome.created else 200)


async def carry_out(route: Route, ctx: Context, change: Change) -> MutationResult:
    """Call the update recipe of the route's resource."""
    if route.scaling is not None:
        if not change.applies:
            change = route.scaling.change(change, ctx)
        outcome = await _carry_out(route, ctx, change)
        return MutationResult(await scaled(route, route.scaling, outcome.item))
    return await _carry_out(route, ctx, change)


async def _carry_out(route: Route, ctx: Context, change: Change) -> MutationResult:
    assert route.gate is not None
    status = route.target.subresource == "status"
    assert route.resource is not None
    return await route.resource.update(ctx, route.version, change, route.gate, status=status)
