"""POST to a collection, PUT and PATCH of an object or a part of it.

A PUT or PATCH is a `Change` for the recipe of updates. See also: `apply`, for server-side apply; ``registry.write``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from oarlock.codec import json as json_codec
from oarlock.endpoints import bodies, respond
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import (
    APPLY_PATCH,
    APPLY_PATCH_CBOR,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    offload,
    patch_type,
)
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.endpoints.verbs.apply import PatchWording, apply
from oarlock.endpoints.verbs.read import once_initialized
from oarlock.meta import options_parse
from oarlock.meta.errors import BadRequest, RequestEntityTooLarge, Unprocessable
from oarlock.meta.go.gotext import plain, quote
from oarlock.meta.json_trees import Tree
from oarlock.patch import errors as patch_errors
from oarlock.patch import json_patch, merge_patch, strategic_merge
from oarlock.registry.served import Served
from oarlock.registry.workers import offload_bytes
from oarlock.registry.write.body import DecodedBody
from oarlock.registry.write.recipe import Change


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
    result = await route.resource.create(ctx, route.target.version, body, route.gate)
    item = await once_initialized(state, route, result)
    return await respond.item_response(state, route, item, accepted, 201)


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
    item = await once_initialized(state, route, result) if result.created else result.item
    return await respond.item_response(state, route, item, accepted, 201 if result.created else 200)


def served_patches(served: Served) -> tuple[str, ...]:
    """The patch types of a resource, in the order in which they are advertised.

    As in Kubernetes, custom resources have no strategic merge patch.
    """
    types: tuple[str, ...] = (JSON_PATCH, MERGE_PATCH)
    if served.definition.typed:
        types += (STRATEGIC_MERGE_PATCH,)
    return (*types, APPLY_PATCH, APPLY_PATCH_CBOR)


async def patch(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with the object after the patch."""
    served = route.resource.served
    media = patch_type(
        state.request.headers.get("content-type", ""), served_patches(served), typed=served.definition.typed
    )
    if media in (APPLY_PATCH, APPLY_PATCH_CBOR):
        return await apply(state, route, in_cbor=media == APPLY_PATCH_CBOR)
    accepted = respond.accept(state, route)
    data = await state.request.read()
    options = options_parse.patch_options(route.pairs, is_apply=False)
    size, kind = offload_bytes(data), route.entry.gvk.kind
    workers = route.resource.settings.workers
    change = await workers.begin(size, _decode, data, media, route.entry, options.field_validation)
    if state.audit is not None:
        await offload(len(data), state.audit.add_patch, data)

    def make(live: Tree) -> DecodedBody:
        try:
            tree = change.apply(live)
        except patch_errors.DirectiveError as error:
            quoted = bodies.may_be_quoted(kind)
            raise BadRequest(str(error) if quoted else "the patch has an invalid directive or list item") from None
        except patch_errors.PatchFailed:
            raise Unprocessable from None
        if not isinstance(tree, dict):
            raise PatchWording(state.target, lambda: "{}").refused("the patch leaves no object")
        _check_kind(tree, route.entry)
        wording = PatchWording(
            state.target,
            lambda: change.shown(live) if bodies.may_be_quoted(kind) else bodies.REDACTED,
            strategic=media == STRATEGIC_MERGE_PATCH,
        )
        return DecodedBody(tree, wording, change.problems, derived=True)

    ctx = state.context(options=options, dry_run=options.dry_run)
    result = await route.write(ctx, Change(make, replaces=False, offload_bytes=size or change.offload_bytes))
    item = await once_initialized(state, route, result) if result.created else result.item
    return await respond.item_response(state, route, item, accepted, 201 if result.created else 200)


class _Patch(NamedTuple):
    """A decoded patch.

    `apply` is the change it makes, without side effects; `shown` makes the patched object's text for errors; `problems`
    are those strict decoding found in the patch. `offload_bytes` is that of its possible result.
    """

    apply: Callable[[Tree], Tree]
    shown: Callable[[Tree], str]
    problems: list[str]
    offload_bytes: int = 0


def _decode(data: bytes, media: str, entry: CatalogEntry, validation: str) -> _Patch:
    try:
        if media == JSON_PATCH:
            parsed = json_patch.parse(data)
            problems = [] if validation == "Ignore" else json_patch.strict_errors(data)
            copies = any(operation.op == "copy" for operation in parsed)
            return _with_result_shown(lambda live: json_patch.apply(live, parsed), problems)._replace(
                offload_bytes=json_patch.COPY_BUDGET_BYTES if copies else 0
            )
        change = merge_patch.parse(data, whole_as_int=media == STRATEGIC_MERGE_PATCH)
    except patch_errors.TooManyOperations as error:
        raise RequestEntityTooLarge(str(error)) from None
    except ValueError as error:
        raise BadRequest(f"error decoding patch: {error}") from None
    problems = (
        [] if validation == "Ignore" else [f"duplicate field {quote(path)}" for path in json_codec.duplicates(data)]
    )
    if media == STRATEGIC_MERGE_PATCH:
        schema = entry.merge_schema
        return _Patch(lambda live: strategic_merge.apply(live, change, schema), lambda _: plain(change), problems)
    return _with_result_shown(lambda live: merge_patch.apply(live, change), problems)


def _with_result_shown(apply: Callable[[Tree], Tree], problems: list[str]) -> _Patch:
    """A patch of which errors show the patched object. It is applied again for that, because the result is in use."""

    def shown(live: Tree) -> str:
        try:
            patched = apply(live)
        except patch_errors.PatchFailed:
            patched = live  # the patch doesn't fit the object any more
        return json_codec.encode(patched).decode()

    return _Patch(apply, shown, problems)


def _check_kind(tree: Tree, entry: CatalogEntry) -> None:
    """A patch may remove apiVersion and kind, which the URL gives anyway, but not change them."""
    for key, expected in (("apiVersion", entry.api_version), ("kind", entry.gvk.kind)):
        if tree.get(key) in (None, ""):
            tree[key] = expected
        elif tree[key] != expected:
            raise BadRequest(f"a patch can't change apiVersion and kind ({entry.api_version}, {entry.gvk.kind})")
