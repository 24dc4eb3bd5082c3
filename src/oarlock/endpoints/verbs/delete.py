"""DELETE of one object. See also: `delete_collection`, which shares the options and the recipe."""

from __future__ import annotations

from functools import partial

import msgspec

from oarlock.codec.kubernetes_messages import kubernetes_message
from oarlock.endpoints import bodies, respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.negotiation import PROTOBUF, Accepted
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.meta import options_parse
from oarlock.meta.errors import BadRequest
from oarlock.meta.options import DeleteOptions
from oarlock.registry.conversions import ConversionError

__all__ = ["delete", "options_of", "success"]

_encode = msgspec.json.Encoder().encode


async def delete(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with a Status if the object was removed, with the object if it waits for its finalizers."""
    accepted = respond.accept(state, route)
    options = await options_of(state, route)
    ctx = state.context(options=options, dry_run=options.dry_run)
    result = await route.resource.delete(ctx, route.version, options, route.gate)
    status = partial(success, state, route, accepted, name=result.name or route.target.name, uid=result.uid)
    unread = options.ignore_store_read_error_with_cluster_breaking_potential
    if result.removed and (unread or route.entry.definition.delete_returns == "status"):
        return await status()
    try:
        return await respond.item_response(state, route, result.item, accepted)
    except ConversionError:
        return await status()  # deleted or marked, although it can't be shown


async def success(
    state: RequestState, route: ResourceRoute, accepted: Accepted, *, name: str = "", uid: str = ""
) -> Response:
    """A Status of success, with name and uid of a removed object."""
    target = route.target
    details = {"name": name, "group": target.group, "kind": target.resource, "uid": uid}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {k: v for k, v in details.items() if v},
    }
    plain = Accepted(accepted.media_type, None, "", accepted.pretty, accepted.media_type)
    return await respond.encoded(state, route, _encode(status), plain)


async def options_of(state: RequestState, route: ResourceRoute) -> DeleteOptions:
    """DeleteOptions: from the body; from the query if the body is empty or ``null``."""
    data = await state.request.read()
    if data.strip() in (b"", b"null"):
        return options_parse.delete_options(route.pairs)
    media = bodies.media_type(state)
    if media == PROTOBUF:
        tree = bodies.decode_protobuf(data, kubernetes_message("meta.v1.DeleteOptions"), "DeleteOptions")
    else:
        tree, _ = bodies.decode_tree(data, media, "DeleteOptions", "Ignore")
    if state.audit is not None:
        state.audit.add_options(tree)
    kind, api_version = (("" if tree.get(key) is None else tree[key]) for key in ("kind", "apiVersion"))
    if not isinstance(kind, str) or not isinstance(api_version, str):
        raise BadRequest(
            "the object provided is unrecognized (must be of type DeleteOptions): apiVersion and kind must be strings"
        )
    if kind not in ("", "DeleteOptions"):
        raise BadRequest(f"{kind} cannot be handled as a DeleteOptions: no such kind is registered for this body")
    return options_parse.delete_options_from_tree(tree)
