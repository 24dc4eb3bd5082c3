"""DELETE of one object and of a collection."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from oarlock.codec.protobuf_meta import DELETE_OPTIONS
from oarlock.endpoints import bodies, respond
from oarlock.endpoints.exchange import Exchange
from oarlock.endpoints.http import Response
from oarlock.endpoints.lists import list_response
from oarlock.endpoints.negotiation import PROTOBUF, Accepted
from oarlock.endpoints.route import Route
from oarlock.endpoints.verbs.list import listing
from oarlock.meta import options_parse
from oarlock.meta.context import Context
from oarlock.meta.errors import BadRequest, NotFound
from oarlock.meta.options import DeleteOptions
from oarlock.registry import delete as recipe
from oarlock.registry.outcome import Item, Listing, Outcome
from oarlock.registry.virtual_resource import VirtualResource
from oarlock.storage.cache.entry import Entry

__all__ = ["delete", "delete_collection"]

_encode = msgspec.json.Encoder().encode


async def delete(x: Exchange, route: Route) -> Response:
    """Answer with a Status when the object is gone, with the object when it waits for its finalizers."""
    accepted = respond.accept(x)
    options = await _options(x, route)
    ctx = x.context(options=options, dry_run=options.dry_run)
    outcome = await _delete(route, ctx, options)
    assert route.entry is not None
    if outcome.gone and route.entry.definition.delete_returns == "status":
        plain = Accepted(accepted.media_type, None, "", accepted.pretty, accepted.media_type)
        return await respond.encoded(x, route, _success(route, outcome), plain)
    return await respond.item_response(x, route, outcome.item, accepted)


async def _delete(route: Route, ctx: Context, options: DeleteOptions) -> Outcome:
    assert route.gate is not None
    if isinstance(route.resource, VirtualResource):
        return await route.resource.delete(ctx, route.version, options, route.gate)
    resource = route.stored()
    assert resource is not None
    return await recipe.delete(resource, ctx, route.version, options, route.gate)


def _success(route: Route, outcome: Outcome) -> bytes:
    target = route.target
    details = {"name": outcome.name, "group": target.group, "kind": target.resource, "uid": outcome.uid}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {k: v for k, v in details.items() if v},
    }
    return _encode(status)


async def _options(x: Exchange, route: Route) -> DeleteOptions:
    """Options in a body make the query's count for nothing; an empty body leaves them to the query."""
    data = await x.request.read()
    if not data.strip():
        return options_parse.delete_options(route.pairs)
    media = bodies.media_type(x)
    if media == PROTOBUF:
        tree = bodies.decode_protobuf(data, DELETE_OPTIONS, "DeleteOptions")
    else:
        tree, _ = bodies.decode_tree(data, media, "DeleteOptions", "Ignore")
    kind = tree.get("kind", "DeleteOptions")
    if kind != "DeleteOptions":
        shown = kind if isinstance(kind, str) else _encode(kind).decode()
        raise BadRequest(f"{shown} cannot be handled as a DeleteOptions: no such kind is registered for this body")
    return options_parse.delete_options_from_tree(tree)


async def delete_collection(x: Exchange, route: Route) -> Response:
    """Delete what the selectors choose, one by one, and answer with what was chosen, as it was before."""
    accepted = respond.accept(x, collection=True)
    options = await _options(x, route)
    choice = options_parse.list_options(route.pairs, watch=False)
    found = await listing(x, route, choice)
    chunks = [list(chunk) for chunk in found.chunks]
    for item in (item for chunk in chunks for item in chunk):
        namespace, name = _place(item)
        target = replace(x.target, namespace=namespace, name=name)
        ctx = x.context(target=target, options=options, dry_run=options.dry_run)
        try:
            await _delete(route, ctx, options)
        except NotFound:
            continue
    return await list_response(
        x, route, Listing(chunks, found.resource_version, found.continue_token, found.remaining), accepted
    )


def _place(item: Item) -> tuple[str, str]:
    if isinstance(item, Entry):
        return item.namespace, item.name
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata.get("name", "")
