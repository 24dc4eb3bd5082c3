"""The recipe of PUT and PATCH, on objects and on ``/status``.

When another write came first, the whole recipe runs again on the newer object, hooks and admission included, until the
request's deadline. Only a request that named a resourceVersion is answered with 409 Conflict. See also: `steps.finish`,
shared with `create`; `delete`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oarlock.meta.context import Context
from oarlock.meta.errors import AlreadyExists, Conflict, InvalidObject, NotFound, ServerTimeout
from oarlock.meta.fielderrors import Invalid
from oarlock.meta.kinds import GroupKind
from oarlock.patch.apply.tracking import keep_times
from oarlock.registry.body import DecodedBody, settle
from oarlock.registry.conversion import ConversionError, copy_tree
from oarlock.registry.create import create
from oarlock.registry.field_conversions import MustConvert
from oarlock.registry.gate import Gate, Reviewers
from oarlock.registry.managed_fields import tracked, unbroken
from oarlock.registry.metadata import check_place, is_deleting, keep_status, keep_system, only_status
from oarlock.registry.readiness import LiveObject, Ready
from oarlock.registry.results import EntryItem, MutationResult, TreeItem
from oarlock.registry.served import Tree
from oarlock.registry.steps import WriteRequest, finish
from oarlock.registry.stored_form import STALE, tail_of
from oarlock.registry.stored_resource import StoredResource
from oarlock.registry.workers import weight
from oarlock.storage.backend import KEEP_TTL
from oarlock.storage.cache.entry import Entry

__all__ = ["NO_SUCH_UID", "Change", "update"]

NO_SUCH_UID = "uid mismatch: the provided object specified uid {}, and no existing object was found"
"""The error for an apply or a PUT that would create an object but has a uid."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a request does to the live object.

    `make` has no side effects and may be called several times. It gets a new tree of the live object in the request
    version, which it may change, and returns a tree that isn't shared.
    `replaces` says that the body is the whole object (PUT): `make` then gets an empty tree, and the body's uid and
    resourceVersion are preconditions.
    `applies` says that `make` sets managedFields (server-side apply); if there is no object, it gets an empty tree and
    creates one.
    `weight` is that of the request body (see `workers.weight`).
    """

    make: Callable[[Tree], DecodedBody]
    replaces: bool
    applies: bool = False
    weight: int = 0


async def update(
    resource: StoredResource, ctx: Context, version: str, change: Change, gate: Gate, *, status: bool = False
) -> MutationResult:
    """Carry out `change`. Raises NotFound, Conflict, InvalidObject, BadRequest, and what admission refuses with."""
    write = WriteRequest.begin(resource, ctx, version, gate, "UPDATE").weighing(change.weight)
    mark = ctx.notes.mark()
    while True:
        await resource.fresh()
        try:
            entry = resource.find(ctx)
        except NotFound:
            outcome = await _absent(write, change, status)
        else:
            heavier = weight(entry.body) if not write.size else 0
            outcome = await _attempt(write.weighing(heavier), change, entry, status)
        if outcome is not None:
            return outcome
        ctx.notes.rewind(mark)
        if ctx.clock.monotonic() > ctx.deadline:
            raise ServerTimeout(resource.definition.group_resource, "update")


async def _absent(write: WriteRequest, change: Change, status: bool) -> MutationResult | None:
    """The object doesn't exist: an apply creates it, and a PUT if the resource allows that.

    None when another writer created it meanwhile.
    """
    resource, ctx = write.resource, write.ctx
    missing = NotFound(resource.definition.group_resource, ctx.target.name)
    if not change.replaces and (ctx.target.subresource or not change.applies):
        raise missing
    body = await write.offload(change.make, {})
    body.weight = write.size
    await write.offload(settle, body, resource.compiled[write.version], resource.served.hooks, ctx)
    metadata = body.tree["metadata"]
    check_place(metadata, write.ctx.target, namespaced=write.resource.definition.namespaced)
    uid = metadata.get("uid")
    if uid:
        why = NO_SUCH_UID.format(uid) if change.applies else _uid_text(write, uid, "")
        raise Conflict(resource.definition.group_resource, ctx.target.name, why)
    if status or not (change.applies or resource.definition.create_on_update):
        raise missing
    await write.gate.may(ctx, "create")
    metadata.pop("resourceVersion", None)
    try:
        return await create(resource, ctx, write.version, body, write.gate, applied=change.applies)
    except AlreadyExists:
        await resource.fresh()
        if resource.cache.get(resource.key(ctx.target.namespace, ctx.target.name)) is None:
            raise
        return None


async def _attempt(write: WriteRequest, change: Change, entry: Entry, status: bool) -> MutationResult | None:
    """One attempt on one state of the object; None when another write came first."""
    resource, ctx = write.resource, write.ctx
    live = await _live(write, change, entry, status)
    body = await _made(write, change, entry)
    await write.offload(settle, body, resource.compiled[write.version], resource.served.hooks, ctx)
    _check_identity(write, body.tree, live, change)
    if resource.definition.version(write.version).status:
        kept = live.tree if live.whole else {}
        body.tree = only_status(body.tree, live.tree) if status else keep_status(body.tree, kept)
    pinned = _check_version(write, body.tree, live, change)
    new = body.tree if change.applies else await tracked(resource.fields, live.tree, body.tree, ctx, write.offload)
    if write.reviewers is not None:
        new = unbroken(new, await _mutated(write, write.reviewers, new, live, body), ctx)
    keep_system(new["metadata"], live.tree["metadata"])
    return await _keep(write, await finish(write, new, live), live, pinned)


async def _live(write: WriteRequest, change: Change, entry: Entry, status: bool) -> LiveObject:
    """The live object in the request version. One that can't be converted can still be replaced as a whole.

    Of the old object only the metadata is kept then. Not through a spoke that isn't the stored version: the fields it
    can't represent would be lost.
    """
    resource, version = write.resource, write.version
    try:
        return LiveObject(entry, await resource.tree(entry, version))
    except ConversionError:
        if status or not change.replaces or version not in (resource.definition.hub, resource.definition.stored_as):
            raise
        return LiveObject(entry, await resource.old(entry, version), whole=False)


async def _made(write: WriteRequest, change: Change, entry: Entry) -> DecodedBody:
    tree = {} if change.replaces else await write.resource.tree(entry, write.version)
    try:
        return await write.offload(change.make, tree)
    except MustConvert as needed:
        live = await write.resource.tree(entry, write.version)
        return await needed.then(lambda: change.make(copy_tree(live)), [live], write.offload)


async def _mutated(write: WriteRequest, reviewers: Reviewers, new: Tree, live: LiveObject, body: DecodedBody) -> Tree:
    changed = await reviewers.mutate(new, live.tree, write.offload)
    if changed is None or changed is new:
        return new
    again = DecodedBody(changed, body.wording, derived=True)
    await write.offload(settle, again, write.resource.compiled[write.version], write.resource.served.hooks, write.ctx)
    for name in ("name", "namespace"):
        if name in live.tree["metadata"]:
            again.tree["metadata"][name] = live.tree["metadata"][name]
    return again.tree


async def _keep(write: WriteRequest, made: Ready, live: LiveObject, pinned: bool) -> MutationResult | None:
    """Write the object if it has changed; remove it if its last finalizer was removed."""
    resource, ctx, entry = write.resource, write.ctx, live.entry
    stored, shown = made.stored, made.shown
    stored["metadata"]["resourceVersion"] = shown["metadata"]["resourceVersion"] = str(entry.rev)
    if _finished(stored["metadata"]):
        if not ctx.dry_run:
            result = await resource.cache.delete(entry.key, expect=entry.rev)
            if not result.ok:
                _lost(write, pinned)
                return None
        return MutationResult(TreeItem(shown))
    kept = await _without_new_times(write, stored, shown, live)
    encoded = await write.encode(kept, made.fields)
    if encoded.tail == tail_of(entry.body) and entry.extra is not STALE:
        return MutationResult(EntryItem(resource, entry))
    if ctx.dry_run:
        return MutationResult(TreeItem(shown))
    ttl = resource.definition.ttl_s
    result, written = await resource.cache.put(
        entry.key,
        resource.form.value_of(encoded.tail),
        expect=entry.rev,
        ttl_ms=KEEP_TTL if ttl is None else ttl * 1000,
        draft=lambda rev, create_rev: resource.form.entry(entry.key, encoded, (rev, create_rev)),
    )
    if not result.ok or written is None:
        _lost(write, pinned)
        return None
    if made.answer is not None and kept is stored:
        await resource.answered(written, write.version, made.answer)
    return MutationResult(EntryItem(resource, written))


async def _without_new_times(write: WriteRequest, stored: Tree, shown: Tree, live: LiveObject) -> Tree:
    """A change of nothing but timestamps in managedFields is no change."""
    if await write.offload(keep_times, live.tree, shown) is shown:
        return stored
    resource = write.resource
    stored_as = resource.definition.stored_as
    old = live.tree if write.version == stored_as else await resource.tree(live.entry, stored_as)
    return await write.offload(keep_times, old, stored)


def _lost(write: WriteRequest, pinned: bool) -> None:
    """Another write came first: raise Conflict if the request named a resourceVersion."""
    if pinned:
        raise Conflict(write.resource.definition.group_resource, write.ctx.target.name)


def _finished(metadata: Tree) -> bool:
    return is_deleting(metadata) and not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")


def _check_identity(write: WriteRequest, tree: Tree, live: LiveObject, change: Change) -> None:
    """Check that the body names the object in the URL and, for PUT, has its uid."""
    metadata = tree["metadata"]
    check_place(metadata, write.ctx.target, namespaced=write.resource.definition.namespaced)
    uid, live_uid = metadata.get("uid"), live.tree["metadata"].get("uid", "")
    if change.replaces and uid and uid != live_uid:
        resource = write.resource.definition.group_resource
        raise Conflict(resource, write.ctx.target.name, _uid_text(write, uid, live_uid))


def _uid_text(write: WriteRequest, asked: str, found: str) -> str:
    key = write.resource.key(write.ctx.target.namespace, write.ctx.target.name)
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}"
    )


def _check_version(write: WriteRequest, new: Tree, live: LiveObject, change: Change) -> bool:
    """Compare the new object's resourceVersion with the live one. True if the request named one."""
    definition, name = write.resource.definition, write.ctx.target.name
    given = new["metadata"].get("resourceVersion")
    if given in (None, "", "0"):
        if not definition.unconditional_update:
            kind = GroupKind(definition.group, definition.names.plural)
            error = Invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise InvalidObject(kind, name, [error])
        return False
    if not (given.isascii() and given.isdecimal()):
        error = Invalid("metadata.resourceVersion", given, "must be a number, as the server gave it out")
        raise InvalidObject(definition.group_kind, name, [error])
    if given != str(live.entry.rev):
        raise Conflict(definition.group_resource, name)
    return change.replaces
