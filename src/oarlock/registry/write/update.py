"""The recipe of PUT and PATCH, on objects and on the subresources that are parts of them (`object_parts`).

When another write came first, the whole recipe runs again on the newer object, hooks and admission included, until the
request's deadline. Only a request that named a resourceVersion is answered with 409 Conflict. See also: `finish`,
shared with `create`; `delete`; `invalid_stored_object`, for objects that don't fit their type any more.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    InvalidObject,
    NotFound,
    ServerTimeout,
    StatusError,
)
from oarlock.meta.fielderrors import Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.registry.conversion.converter import ConversionError
from oarlock.registry.read.results import MutationResult
from oarlock.registry.write.body import DecodedBody
from oarlock.registry.write.create import create
from oarlock.registry.write.field_conversions import NeedsConversion
from oarlock.registry.write.finish import finish
from oarlock.registry.write.gate import Gate
from oarlock.registry.write.initializing import check_initializing
from oarlock.registry.write.invalid_stored_object import InvalidStoredObject, invalid_stored_object
from oarlock.registry.write.metadata import check_place, keep_system
from oarlock.registry.write.write_request import (
    CheckedObject,
    LiveObject,
    Precondition,
    WritableResource,
    WriteRequest,
    tracked,
)

__all__ = ["Change", "update"]

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
    `offload_bytes` is that of the request body (see `workers.offload_bytes`).
    """

    make: Callable[[Tree], DecodedBody]
    replaces: bool
    applies: bool = False
    offload_bytes: int = 0


async def update(resource: WritableResource, ctx: Context, version: str, change: Change, gate: Gate) -> MutationResult:
    """Carry out `change` on the part of the object that the target's subresource names.

    Raises NotFound, Conflict, InvalidObject, BadRequest, and what admission refuses with.
    """
    write = WriteRequest(resource, ctx, version, gate, "UPDATE")
    write.set_offload_bytes(change.offload_bytes)
    mark = ctx.notes.mark()
    for _ in range(write.object_storage.attempts):
        try:
            live = await write.object_storage.get(write, replaces=change.replaces)
        except NotFound:
            result = await _absent(write, change)
        else:
            if live is not None:
                write.set_offload_bytes(live.offload_bytes)
            result = await _tried(write, change, live)
        if result is not None:
            return result
        await write.claims.end()
        ctx.notes.rewind(mark)
        if ctx.clock.monotonic() > ctx.deadline:
            break
    raise ServerTimeout(write.definition.group_resource, "update")


async def _absent(write: WriteRequest, change: Change) -> MutationResult | None:
    """The object doesn't exist: an apply creates it, and a PUT if the resource allows that.

    None when another writer created it meanwhile.
    """
    ctx, definition = write.ctx, write.definition
    missing = NotFound(definition.group_resource, ctx.target.name)
    creates = not write.part.name and (change.applies or (change.replaces and definition.create_on_update))
    creates = creates and "create" in write.resource.served.verbs()
    if not creates and not (change.replaces and write.object_storage.keeps_metadata):
        raise missing
    body = await write.offload(change.make, {})
    body.offload_bytes = write.offload_bytes
    await write.normalize(body)
    metadata = body.tree["metadata"]
    check_place(metadata, ctx.target, namespaced=definition.namespaced)
    uid = metadata.get("uid")
    if uid:
        why = NO_SUCH_UID.format(uid)
        if not change.applies and write.object_storage.keeps_metadata:
            why = _uid_text(write, uid, "")
        raise Conflict(definition.group_resource, ctx.target.name, why)
    if not creates:
        raise missing
    await write.gate.may(ctx, "create")
    metadata.pop("resourceVersion", None)
    try:
        return await create(write.resource, ctx, write.version, body, write.gate, applied=change.applies)
    except AlreadyExists as taken:
        try:
            await write.object_storage.get(write, replaces=change.replaces)
        except NotFound:
            raise taken from None
        return None


async def _tried(write: WriteRequest, change: Change, live: LiveObject | None) -> MutationResult | None:
    """One attempt; if it is refused, another that leaves alone what the stored object has wrong already."""
    mark = write.ctx.notes.mark()
    try:
        return await _attempt(write, change, live)
    except (InvalidObject, BadRequest, ConversionError) as error:
        await write.claims.end(error)
        if live is None or live.entry is None or not live.whole or write.version != write.definition.stored_as:
            raise
        invalid = await write.offload(invalid_stored_object, write, live)
        if invalid is None:
            raise
        refused = invalid.blamed(error)
    except BaseException as error:
        await write.claims.end(error)
        raise
    write.ctx.notes.rewind(mark)
    try:
        return await _attempt(write, change, live, invalid, refused)
    except BaseException as error:
        await write.claims.end(error)
        raise


async def _attempt(
    write: WriteRequest,
    change: Change,
    stored: LiveObject | None,
    invalid: InvalidStoredObject | None = None,
    refused: StatusError | None = None,
) -> MutationResult | None:
    """One attempt on one state of the object; None when another write came first.

    With an `invalid` object, its fields that don't fit are seen as far as they can be read, and stay as they are;
    `refused` is raised if the change is about one of them.
    """
    live = stored if invalid is None else invalid.readable
    body = await _changed(write, change, stored)
    if invalid is not None:
        body.tree = invalid.shown(write, body.tree, refused)
    await write.normalize(body)
    _check_identity(write, body.tree, live, change)
    if live is not None:
        body.tree = write.part.confine(body.tree, live.tree if live.whole else {})
    precondition = _precondition(write, body.tree, live, change)
    new = body.tree
    if stored is not None and not change.applies:
        new = await (tracked(write, stored.tree, new) if invalid is None else invalid.tracked(write, new))
    if write.reviewers is not None:
        new = await write.mutated(write.reviewers, new, None if live is None else live.tree, body)
        if live is not None:
            new = write.part.confine(new, live.tree if live.whole else {})  # nor can admission change the rest
        if invalid is not None:
            new = invalid.reset(new)
    if write.hooks.reserve is not None:
        new = await write.reserved(new, None if live is None else live.tree, body)
    if live is not None:
        keep_system(new["metadata"], live.tree["metadata"])
        if write.definition.initializers:
            await check_initializing(write, new, live.tree)
    made = await finish(write, new, live)
    if invalid is not None:
        made = CheckedObject(invalid.restored(made.tree), None)
    write.claims.storing = True
    return await write.object_storage.replace(write, made, stored, precondition)


async def _changed(write: WriteRequest, change: Change, live: LiveObject | None) -> DecodedBody:
    """The body that `change` makes of the live object."""

    def make() -> DecodedBody:
        return change.make({} if change.replaces or live is None else live.copy())

    try:
        return make() if not write.offload_bytes else await write.offload(make)
    except NeedsConversion as needed:
        return await needed.then(make, [] if live is None else [live.tree], write.offload)


def _check_identity(write: WriteRequest, tree: Tree, live: LiveObject | None, change: Change) -> None:
    """Check that the body names the object in the URL and, for PUT, has its uid."""
    metadata = tree["metadata"]
    check_place(metadata, write.ctx.target, namespaced=write.definition.namespaced)
    uid = metadata.get("uid")
    if not change.replaces or not uid or live is None:
        return
    live_uid = live.tree["metadata"].get("uid", "")
    if uid != live_uid and (live_uid or write.object_storage.keeps_metadata):
        raise Conflict(write.definition.group_resource, write.ctx.target.name, _uid_text(write, uid, live_uid))


def _uid_text(write: WriteRequest, uid: str, live_uid: str) -> str:
    why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}"
    key = write.object_storage.key(write).replace("//", "/")  # as etcd has those of Kubernetes' own kinds
    if not key:
        return why
    return f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"


def _precondition(write: WriteRequest, new: Tree, live: LiveObject | None, change: Change) -> Precondition:
    """Compare the new object's resourceVersion, if it has one, with the live one."""
    definition, name = write.definition, write.ctx.target.name
    version = new["metadata"].get("resourceVersion") or ""
    if write.object_storage.keeps_metadata:
        if version in ("", "0"):
            if not definition.unconditional_update:
                kind = GroupKind(definition.group, definition.names.plural)
                error = Invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise InvalidObject(kind, name, [error])
            return Precondition("", change.replaces)
        if not (version.isascii() and version.isdecimal()):
            error = Invalid("metadata.resourceVersion", version, "must be a number, as the server gave it out")
            raise InvalidObject(definition.group_kind, name, [error])
    if version and live is not None and version != live.tree["metadata"].get("resourceVersion", version):
        raise Conflict(definition.group_resource, name)
    return Precondition(version, change.replaces)
