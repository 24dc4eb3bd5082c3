"""POST to a collection, PUT and PATCH of an object or a part of it.

A PUT or PATCH is a `Change` for the recipe of updates. See also: `apply`, for server-side apply; ``registry.write``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec import Struct

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
from oarlock.meta.context import Target
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
    options = route.options
    if options is None:
        options = route.options = options_parse.create_options(route.pairs)
    workers = route.resource.settings.workers
    body = await bodies.read_object(workers, data, media, route.entry, options.field_validation)
    if state.audit is not None:
        await offload(len(data), state.audit.add_request, body.tree)
    ctx = state.context(options=options, dry_run=options.dry_run)
    result = await route.resource.create(ctx, route.target.version, body, route.gate)
    item = await once_initialized(state, route, result) if route.resource.definition.initializers else result.item
    return await respond.item_response(state, route, item, accepted, 201)


async def update(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with the new object; 201 if the resource allows to create by PUT, and did."""
    accepted = respond.accept(state, route)
    data = await state.request.read()
    options = route.options
    if options is None:
        options = route.options = options_parse.update_options(route.pairs)
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
    change = Change(make, replaces=True, offload_bytes=offload_bytes)
    if route.scaling is not None:
        change = route.scaling.change(change, ctx)
    result = await route.resource.update(ctx, route.target.version, change, route.gate)
    item = await once_initialized(state, route, result) if result.created else result.item
    return await respond.item_response(state, route, item, accepted, 201 if result.created else 200)


_OF_CUSTOM: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH, APPLY_PATCH_CBOR)

_OF_TYPED: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH, APPLY_PATCH_CBOR)


def served_patches(served: Served) -> tuple[str, ...]:
    """The patch types of a resource, in the order in which they are advertised.

    As in Kubernetes, custom resources have no strategic merge patch.
    """
    return _OF_TYPED if served.definition.typed else _OF_CUSTOM


async def patch(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with the object after the patch."""
    typed = route.resource.served.definition.typed
    header = state.request.headers.get("content-type", "")
    media = patch_type(header, _OF_TYPED if typed else _OF_CUSTOM, typed=typed)
    if media in (APPLY_PATCH, APPLY_PATCH_CBOR):
        return await apply(state, route, in_cbor=media == APPLY_PATCH_CBOR)
    accepted = respond.accept(state, route)
    data = await state.request.read()
    options = route.options  # an apply, which has others, keeps none there
    if options is None:
        options = route.options = options_parse.patch_options(route.pairs, is_apply=False)
    size, workers = offload_bytes(data), route.resource.settings.workers
    if size:
        sent = await workers.begin(size, _decode, data, media, route.entry, options.field_validation)
    else:
        sent = _decode(data, media, route.entry, options.field_validation)
    if state.audit is not None:
        await offload(len(data), state.audit.add_patch, data)
    ctx = state.context(options=options, dry_run=options.dry_run)
    make, size = partial(sent.body, state.target), size or sent.offload_bytes
    change = Change(make, replaces=False, offload_bytes=size)
    if route.scaling is not None:
        change = route.scaling.change(change, ctx)
    result = await route.resource.update(ctx, route.target.version, change, route.gate)
    item = await once_initialized(state, route, result) if result.created else result.item
    return await respond.item_response(state, route, item, accepted, 201 if result.created else 200)


class _Patch(Struct, frozen=True):
    """A decoded patch of objects of `entry`: `change` is what `media` says it is.

    `problems` are those strict decoding found in the patch. `offload_bytes` is that of its possible result.
    """

    media: str
    change: Any
    entry: CatalogEntry
    problems: list[str]
    offload_bytes: int = 0

    def body(self, target: Target, live: Tree) -> DecodedBody:
        """The patched object, for a write to `target`. Without side effects."""
        try:
            tree = self.patched(live)
        except patch_errors.DirectiveError as error:
            quoted = bodies.may_be_quoted(self.entry.gvk.kind)
            raise BadRequest(str(error) if quoted else "the patch has an invalid directive or list item") from None
        except patch_errors.PatchFailed:
            raise Unprocessable from None
        if type(tree) is not dict:
            raise PatchWording(target, _no_object).refused("the patch leaves no object")
        _check_kind(tree, self.entry)
        wording = PatchWording(target, partial(self.shown, live), strategic=self.media == STRATEGIC_MERGE_PATCH)
        return DecodedBody(tree, wording, self.problems, derived=True)

    def patched(self, live: Tree) -> Any:
        """What the patch makes of `live`, which isn't changed. Raises PatchError."""
        if self.media == JSON_PATCH:
            return json_patch.apply(live, self.change)
        if self.media == STRATEGIC_MERGE_PATCH:
            return strategic_merge.apply(live, self.change, self.entry.merge_schema)
        return merge_patch.apply(live, self.change)

    def shown(self, live: Tree) -> str:
        """The text of errors: a strategic patch itself, else what is made of `live`.

        The patch is applied again for that, because the first result is in use.
        """
        if not bodies.may_be_quoted(self.entry.gvk.kind):
            return bodies.REDACTED
        if self.media == STRATEGIC_MERGE_PATCH:
            return plain(self.change)
        try:
            patched = self.patched(live)
        except patch_errors.PatchFailed:
            patched = live  # the patch doesn't fit the object any more
        return json_codec.encode(patched).decode()


def _no_object() -> str:
    return "{}"


def _decode(data: bytes, media: str, entry: CatalogEntry, validation: str) -> _Patch:
    problems: list[str] = []
    try:
        if media == JSON_PATCH:
            parsed = json_patch.parse(data)
            problems = [] if validation == "Ignore" else json_patch.strict_errors(data)
            copies = any(operation.op == "copy" for operation in parsed)
            return _Patch(media, parsed, entry, problems, json_patch.COPY_BUDGET_BYTES if copies else 0)
        change = merge_patch.parse(data, whole_as_int=media == STRATEGIC_MERGE_PATCH)
    except patch_errors.TooManyOperations as error:
        raise RequestEntityTooLarge(str(error)) from None
    except ValueError as error:
        raise BadRequest(f"error decoding patch: {error}") from None
    if validation != "Ignore":
        for path in json_codec.duplicates(data, change):
            problems.append(f"duplicate field {quote(path)}")
    return _Patch(media, change, entry, problems)


def _check_kind(tree: Tree, entry: CatalogEntry) -> None:
    """A patch may remove apiVersion and kind, which the URL gives anyway, but not change them."""
    if tree.get("apiVersion") == entry.api_version and tree.get("kind") == entry.gvk.kind:
        return
    for key, expected in (("apiVersion", entry.api_version), ("kind", entry.gvk.kind)):
        if tree.get(key) in (None, ""):
            tree[key] = expected
        elif tree[key] != expected:
            raise BadRequest(f"a patch can't change apiVersion and kind ({entry.api_version}, {entry.gvk.kind})")
