"""GET of ``/scale``. PUT and PATCH are in `update` and `patch`, whose `carry_out` shows the result as a Scale."""

from __future__ import annotations

from oarlock.endpoints import respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.route import Route
from oarlock.meta import options_parse
from oarlock.registry import read
from oarlock.registry.results import Item
from oarlock.registry.scale import Scaling
from oarlock.registry.served import Tree
from oarlock.registry.stored_resource import StoredResource
from oarlock.registry.virtual_resource import VirtualResource
from oarlock.storage.cache.entry import Entry

__all__ = ["get_scale", "scaled"]


async def get_scale(state: RequestState, route: Route) -> Response:
    """Answer with the object as an autoscaling/v1 Scale."""
    accepted = respond.accept(state)
    options = options_parse.get_options(route.pairs)
    resource, target = route.resource, route.target
    assert route.scaling is not None
    item: Item
    if isinstance(resource, VirtualResource):
        item = await resource.get(state.context(options=options), route.version)
    else:
        assert isinstance(resource, StoredResource)
        item = await read.get(resource, target.namespace, target.name, options.resource_version)
    return await respond.item_response(state, route, await scaled(route, route.scaling, item), accepted)


async def scaled(route: Route, scaling: Scaling, item: Item) -> Tree:
    """The Scale for a recipe's result."""
    if isinstance(item, Entry):
        resource = route.stored()
        assert resource is not None
        item = await resource.tree(item, route.version)
    return scaling.show(item)
