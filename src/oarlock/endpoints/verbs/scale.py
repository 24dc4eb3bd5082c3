"""GET of ``/scale``. PUT and PATCH are in `update` and `patch`, whose `carry_out` shows the result as a Scale."""

from __future__ import annotations

from oarlock.endpoints import respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.route import Route
from oarlock.meta import options_parse
from oarlock.registry.results import Item, TreeItem
from oarlock.registry.scale import Scaling

__all__ = ["get_scale", "scaled"]


async def get_scale(state: RequestState, route: Route) -> Response:
    """Answer with the object as an autoscaling/v1 Scale."""
    accepted = respond.accept(state)
    options = options_parse.get_options(route.pairs)
    assert route.scaling is not None
    assert route.resource is not None
    item = await route.resource.get(state.context(options=options), route.version, options.resource_version)
    return await respond.item_response(state, route, await scaled(route, route.scaling, item), accepted)


async def scaled(route: Route, scaling: Scaling, item: Item) -> TreeItem:
    """The Scale for a recipe's result."""
    return TreeItem(scaling.show(await item.tree(route.version)))
