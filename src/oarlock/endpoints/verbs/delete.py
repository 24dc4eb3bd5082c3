"""DELETE of one object, and of a collection: its objects are listed once, then deleted a bounded number at a time.

Objects created meanwhile stay. Each object of a collection is deleted by the recipe of a single DELETE, with its own
preconditions, admission and finalizers; several at a time, so that they share the store's commits. Source:
kube-apiserver's DeleteCollection, and its ``--delete-collection-workers``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import msgspec

from oarlock.codec.kubernetes_messages import kubernetes_message
from oarlock.endpoints import bodies, respond
from oarlock.endpoints.http import Response
from oarlock.endpoints.lists.answers import list_response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import PROTOBUF, Accepted
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.meta import options_parse
from oarlock.meta.context import Notes
from oarlock.meta.errors import BadRequest, InvalidObject, NotFound
from oarlock.meta.fielderrors import Invalid
from oarlock.meta.kinds import GroupKind
from oarlock.meta.options import DeleteOptions, ListOptions
from oarlock.registry.conversions import ConversionError
from oarlock.registry.read.recipes import ListItem
from oarlock.registry.workers import ensure_task
from oarlock.storage.pacing import Pacer

_encode = msgspec.json.Encoder().encode


async def delete(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with a Status if the object was removed, with the object if it waits for its finalizers."""
    accepted = respond.accept(state, route)
    options = await options_of(state, route)
    ctx = state.context(options=options, dry_run=options.dry_run)
    result = await route.resource.delete(ctx, route.target.version, options, route.gate)
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


async def delete_collection(state: RequestState, route: ResourceRoute) -> Response:
    """Answer with the selected objects, as they were before.

    The answer is the first error, in the order of the list; later deletions aren't begun.
    """
    accepted = respond.accept(state, route, collection=True)
    options = await options_of(state, route)
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        why = "is not allowed with DELETECOLLECTION, try again after removing the option"
        raise InvalidObject(GroupKind("meta.k8s.io", "DeleteOptions"), "", [Invalid(options_parse.UNSAFE, True, why)])
    selected = _exactly(options_parse.list_options(route.pairs, watch=False))
    selected = replace(selected, include_uninitialized=True)  # what waits for initializers would be left behind
    found = await route.resource.list(state.context(options=selected), route.target.version, selected)
    chunks = [list(chunk) for chunk in found.chunks]
    await ensure_task()
    await _Deletion(state, route, options, chunks).run()
    try:
        return await list_response(state, route, replace(found, chunks=chunks), accepted)
    except ConversionError:
        return await success(state, route, accepted)  # deleted, even if they can't be shown


def _exactly(options: ListOptions) -> ListOptions:
    """Read resourceVersion as exact, not as a minimum: so that no object is deleted that the client hasn't seen."""
    if options.resource_version in ("", "0") or options.resource_version_match or options.continue_token:
        return options
    return replace(options, resource_version_match="Exact")


class _Deletion:
    """The deletions of one request. `run` takes objects from one list, in its order."""

    def __init__(
        self, state: RequestState, route: ResourceRoute, options: DeleteOptions, chunks: list[list[ListItem]]
    ) -> None:
        self._state = state
        self._route = route
        self._options = options
        self._count = sum(map(len, chunks))
        self._waiting: Iterator[tuple[int, ListItem]] = enumerate(item for chunk in chunks for item in chunk)
        self._failed: dict[int, Exception] = {}
        self._notes: dict[int, Notes] = {}
        self._pacer = Pacer()

    async def run(self) -> None:
        """Delete them all. Raises the error of the first that failed."""
        workers = min(self._route.resource.deletions_at_a_time, self._count)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work())
        finally:
            self._pass_on_notes()
        if self._failed:
            raise self._failed[min(self._failed)]

    async def _work(self) -> None:
        for number, item in self._waiting:
            try:
                await self._delete(number, item)
            except NotFound:
                pass  # deleted by another client
            except Exception as error:
                self._failed[number] = error
            if self._failed:
                return
            await self._pacer.turn()

    async def _delete(self, number: int, item: ListItem) -> None:
        state, options = self._state, self._options
        target = replace(state.target, namespace=item.namespace, name=item.name)
        notes = Notes()  # a retry withdraws its own warnings only
        ctx = msgspec.structs.replace(
            state.context(target=target, options=options, dry_run=options.dry_run), notes=notes
        )
        try:
            await self._route.resource.delete(ctx, self._route.target.version, options, self._route.gate)
        finally:
            if notes.warnings or notes.annotations:
                self._notes[number] = notes

    def _pass_on_notes(self) -> None:
        """Pass on the warnings for each object, in the order of the list."""
        for number in sorted(self._notes):
            notes = self._notes[number]
            for text in notes.warnings:
                self._state.notes.warn(text)
            for key, value in notes.annotations:
                self._state.notes.audit(key, value)
