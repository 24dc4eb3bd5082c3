"""The subresources users wrote that answer with an object. Next: `stream_text` for those that go on."""

from __future__ import annotations

from oarlock.codec import json as json_codec
from oarlock.endpoints import bodies, respond
from oarlock.endpoints.exchange import Exchange
from oarlock.endpoints.http import Response
from oarlock.endpoints.route import Route
from oarlock.meta import options_parse
from oarlock.meta.errors import BadRequest, InvalidObject
from oarlock.meta.kinds import GroupKind
from oarlock.registry import read
from oarlock.registry.body import Body, BodyWording, settle
from oarlock.registry.parameters import values_of
from oarlock.registry.resource import Resource
from oarlock.registry.served import Hooks, SubresourceHook, Tree
from oarlock.registry.virtual_resource import VirtualResource

__all__ = ["call_hook", "parent_of"]

_NO_HOOKS = Hooks()


async def call_hook(x: Exchange, route: Route) -> Response:
    """Hand the parent, as it is now, and the body to the user's code; answer with what it returns."""
    accepted = respond.accept(x, transforms=False)
    assert route.resource is not None
    hook = route.resource.served.hooks.subresources[route.target.subresource]
    assert isinstance(hook, SubresourceHook)
    given = values_of(hook.arguments, route.pairs)
    body, dry_run = await _body(x, route, hook)
    ctx = x.context(dry_run=dry_run)
    parent = await parent_of(x, route)
    answer = await hook.call(ctx, parent, body, given)
    if answer is None:
        return Response(204, [])
    status = 201 if hook.method == "POST" else 200
    return await respond.encoded(x, route, json_codec.encode(answer), accepted, status)


async def parent_of(x: Exchange, route: Route) -> Tree:
    """The object a subresource is below, as it is now, in the request version. Raises NotFound."""
    resource, target = route.resource, route.target
    if isinstance(resource, VirtualResource):
        return await resource.get(x.context(), route.version)
    assert isinstance(resource, Resource)
    return await resource.tree(await read.get(resource, target.namespace, target.name, ""), route.version)


async def _body(x: Exchange, route: Route, hook: SubresourceHook) -> tuple[Tree | None, bool]:
    """The decoded body, and whether the request is a dry run."""
    if hook.method == "GET":
        return None, False
    media = bodies.media_type(x)
    data = await x.request.read()
    options = options_parse.create_options(route.pairs)
    if not data.strip():
        return None, options.dry_run
    entry = route.entry
    assert entry is not None
    kind = entry.subresources[hook.name].kind
    tree, problems = bodies.decode_tree(data, media, kind.kind, options.field_validation)
    for name, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if tree.get(name, wanted) != wanted:
            raise BadRequest(f"the {name} of the body is {tree[name]!r}, and this subresource takes {wanted!r}")
        tree[name] = wanted
    compiled = route.resource.bodies.get((route.version, hook.name)) if route.resource is not None else None
    if compiled is not None:
        body = Body(tree, BodyWording(kind.kind, kind.version), problems)
        settle(body, compiled, _NO_HOOKS, x.context(options=options))
        wrong = compiled.validate(body.tree)
        if wrong:
            raise InvalidObject(GroupKind(kind.group, kind.kind), "", wrong)
    return tree, options.dry_run
