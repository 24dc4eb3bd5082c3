"""Users' subresources that answer with an object, and those that pass a request on (``proxy``; ``exec`` of pods).

Authorization and admission come before; admission is told the path as Kubernetes' options of the subresource are.

See also: `connect` for streams and connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oarlock.codec import json as json_codec
from oarlock.endpoints import bodies, respond
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.http import Response
from oarlock.endpoints.in_protobuf import OwnMessage, object_from_json
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import JSON, PROTOBUF
from oarlock.endpoints.routing.route import ResourceRoute, Verb
from oarlock.meta import options_parse
from oarlock.meta.context import Context
from oarlock.meta.errors import BadRequest, InvalidObject
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind, GroupVersionKind
from oarlock.registry.hooks.hook_caller import named_values_of, values_of
from oarlock.registry.served import ForwardHook, Hooks, ProxyHook, SubresourceHook
from oarlock.registry.workers import at_once
from oarlock.registry.write.body import BodyWording, DecodedBody, normalize_body
from oarlock.registry.write.recipe import Change
from oarlock.registry.write.write_request import AdmissionRequest
from oarlock.schema.compiled import CompiledVersion

_NO_HOOKS = Hooks()


def call_hook(hook: SubresourceHook) -> Verb:
    """The verb that calls the user's code with the parent and the body, and answers with its result."""

    async def answer_of_hook(state: RequestState, route: ResourceRoute) -> Response:
        accepted = respond.accept_answer(state, route)
        arguments = values_of(hook.arguments, route.pairs)
        body, dry_run = await _body(state, route, hook)
        ctx = state.context(dry_run=dry_run)
        parent = await parent_of(state, route)
        if hook.change is not None:
            await _change(route, ctx, hook.change, body or {})
        answer = await hook.call(ctx, parent, body, arguments)
        if answer is None:
            return Response(204, [])
        status = 201 if hook.method == "POST" else 200
        data = json_codec.encode(answer)
        if accepted.media_type == PROTOBUF:
            return _in_protobuf(route, answer, data, status)
        return await respond.encoded(state, route, data, accepted, status)

    return answer_of_hook


async def _change(
    route: ResourceRoute, ctx: Context, change: Callable[[Tree, Tree, Context], None], body: Tree
) -> None:
    """Update the parent. Admission has looked at the body already, and isn't asked again."""
    kind = route.entry.gvk

    def make(live: Tree) -> DecodedBody:
        change(live, body, ctx)
        return DecodedBody(live, BodyWording(kind.kind, kind.version), derived=True)

    await route.resource.update(ctx, route.target.version, Change(make, replaces=False), _NO_GATE)


class _NoGate:
    """Admits everything."""

    def reviewers(self, request: AdmissionRequest) -> None:
        return None

    async def may(self, ctx: Context, verb: str) -> None:
        return None


_NO_GATE = _NoGate()


def _in_protobuf(route: ResourceRoute, answer: Tree, data: bytes, status: int) -> Response:
    """Encode the answer. An object of the parent's kind is in the request version, whose field numbers are used."""
    entry = route.entry
    own = answer["apiVersion"], answer["kind"]
    is_parent = own == (entry.api_version, entry.gvk.kind)
    message = entry.protobuf if is_parent else entry.sub_messages(route.target.subresource)[1]
    if message is None and own != ("v1", "Status"):
        return Response(status, [("content-type", JSON)], data + b"\n")
    return Response(status, [("content-type", PROTOBUF)], object_from_json(OwnMessage(*own, message), data))


async def parent_of(state: RequestState, route: ResourceRoute) -> Tree:
    """The parent object in the request version. Raises NotFound."""
    item = await route.resource.get(state.context(), route.target.version)
    return await item.tree(route.target.version)


async def _body(state: RequestState, route: ResourceRoute, hook: SubresourceHook) -> tuple[Tree | None, bool]:
    """The decoded body, and whether the request is a dry run."""
    if hook.method == "GET":
        return None, False
    options = options_parse.create_options(route.pairs)
    compiled = route.resource.bodies.get((route.target.version, hook.name))
    if compiled is None:
        await _require_no_body(state)
        await admit_connection(state.context(options=options, dry_run=options.dry_run), route)
        return None, options.dry_run
    media = bodies.media_type(state)
    data = await state.request.read()
    if not data.strip():
        data, media = b"{}", JSON
    served = route.entry.subresources[hook.name]
    kind = served.kind
    tree, problems = _decoded(data, media, route.entry, hook.name, options.field_validation)
    for name, expected in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        value = tree.get(name) or expected
        if value != expected and not (name == "apiVersion" and value in served.older):
            shown = json_codec.encode(value).decode()
            raise BadRequest(f'the {name} of the body is {shown}, and this subresource takes "{expected}"')
        tree[name] = expected
    if state.audit is not None:
        state.audit.add_request(tree)
    ctx = state.context(options=options, dry_run=options.dry_run)
    body = DecodedBody(tree, BodyWording(kind.kind, kind.version), problems)
    return await _admitted(route, ctx, "CREATE" if hook.method == "POST" else "UPDATE", body, compiled), ctx.dry_run


async def _require_no_body(state: RequestState) -> None:
    """Check that an action has no body, or an empty object. Raises BadRequest."""
    data = await state.request.read()
    if data.strip() not in (b"", b"{}", b"null"):
        raise BadRequest("this subresource takes no body: send none, or {}")


async def connection_context(state: RequestState, route: ResourceRoute, given: Mapping[str, Any]) -> Context:
    """The context of a connection that is allowed and admitted; `given` are the arguments in its query.

    A WebSocket is asked for with GET (KEP-4006): the right to read doesn't suffice. Raises what authorization
    and admission raise.
    """
    ctx = state.context(options=given)
    if ctx.target.verb != "create":
        await route.gate.may(ctx, "create")
    await admit_connection(ctx, route)
    return ctx


async def admit_connection(ctx: Context, route: ResourceRoute) -> None:
    """Call admission for CONNECT, which has no object: a connection, or a subresource without a body."""
    reviewers = route.gate.reviewers(AdmissionRequest(ctx, "CONNECT", route.resource.served))
    if reviewers is not None:
        await reviewers.mutate(None, None, at_once)
        await reviewers.validate(None, None, at_once)


async def _admitted(
    route: ResourceRoute, ctx: Context, operation: str, body: DecodedBody, compiled: CompiledVersion
) -> Tree:
    """The body after settling, mutating admission, validation and validating admission, as for objects."""
    api_version, kind = body.tree["apiVersion"], body.tree["kind"]
    normalize_body(body, compiled, _NO_HOOKS, ctx)
    group, _, version = api_version.rpartition("/")
    review = AdmissionRequest(ctx, operation, route.resource.served, GroupVersionKind(group, version, kind))
    reviewers = route.gate.reviewers(review)
    if reviewers is not None:
        changed = await reviewers.mutate(body.tree, None, at_once)
        if changed is not None and changed is not body.tree:
            body = DecodedBody({**changed, "apiVersion": api_version, "kind": kind}, body.wording)
            normalize_body(body, compiled, _NO_HOOKS, ctx)
    wrong = compiled.validate(body.tree)
    if wrong:
        raise InvalidObject(GroupKind(group, kind), "", wrong)
    if reviewers is not None:
        await reviewers.validate(body.tree, None, at_once)
    return body.tree


def _decoded(data: bytes, media: str, entry: CatalogEntry, name: str, validation: str) -> tuple[Tree, list[str]]:
    kind, message = entry.subresources[name].kind.kind, entry.sub_messages(name)[0]
    if media == PROTOBUF and message is not None:
        return bodies.decode_protobuf(data, message, kind), []
    return bodies.decode_tree(data, media, kind, validation)


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def proxy(hook: ProxyHook) -> Verb:
    """The verb that passes a request on."""

    async def pass_on(state: RequestState, route: ResourceRoute) -> Response:
        path = _asked_for(state, route)
        await admit_connection(state.context(options={"path": path} if path else {}), route)
        response: Response = await hook.answer(state, path)
        return response

    return pass_on


def forward(hook: ForwardHook) -> Verb:
    """The verb that passes on what is asked about an object that is there."""

    async def pass_on(state: RequestState, route: ResourceRoute) -> Response:
        given = named_values_of(route.entry.subresources[hook.name].parameters, route.pairs)
        if hook.connects:
            await connection_context(state, route, given)
        response: Response = await hook.answer(state, await parent_of(state, route), given)
        return response

    return pass_on


def _asked_for(state: RequestState, route: ResourceRoute) -> str:
    """The path behind the subresource; without one the parameter ``path``, which is empty unless given."""
    behind = route.target.path
    if behind or state.request.path.endswith("/"):
        return f"/{behind}"
    return next((value for name, value in route.pairs if name == "path"), "")
