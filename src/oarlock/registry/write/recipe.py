"""The recipes of CREATE, PUT and PATCH, of objects and of subresources that are parts of them (``body.ObjectPart``).

Both end in `finish`: hub version → `prepare` → metadata and schema validation of the request version → `validate` →
validating admission → what is taken for the final object.
When another write came first, the whole recipe of an update runs again on the newer object, hooks and admission
included, until the request's deadline. Only a request that named a resourceVersion is answered with 409 Conflict. See
also: `delete`; `invalid_stored_object`, for objects that don't fit their type any more. Source: KEP-4420 for
generateName.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from oarlock.meta.context import Context
from oarlock.meta.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    InvalidObject,
    NotFound,
    ServerTimeout,
    StatusError,
)
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.meta.names import generate_name
from oarlock.registry.conversions import ConversionError, copy_tree, copy_unless_pure
from oarlock.registry.read.recipes import MutationResult
from oarlock.registry.served import Settings
from oarlock.registry.workers import on_the_loop
from oarlock.registry.write.body import DecodedBody, fields_of, top_of
from oarlock.registry.write.initializing import begin_initializing, check_initializing
from oarlock.registry.write.invalid_stored_object import InvalidStoredObject, invalid_stored_object
from oarlock.registry.write.metadata import (
    NeedsConversion,
    check_place,
    check_unversioned,
    differ,
    fill_namespace,
    fill_new,
    keep_system,
    wipe_system,
)
from oarlock.registry.write.replicas import replica_errors
from oarlock.registry.write.write_request import (
    CheckedObject,
    Gate,
    HookedRequest,
    Hub,
    LiveObject,
    Precondition,
    WritableResource,
    WriteRequest,
    tracked,
)
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.types.views import ViewError
from oarlock.schema.validation.objectmeta import validate_object_meta, validate_object_meta_update

__all__ = [
    "NAME_ATTEMPTS",
    "Change",
    "create",
    "finish",
    "hook_errors",
    "in_hub",
    "prepared",
    "update",
    "with_generated_name",
]

NAME_ATTEMPTS = 8
"""How many generated names are tried before giving up."""

NO_SUCH_UID = "uid mismatch: the provided object specified uid {}, and no existing object was found"
"""The error for an apply or a PUT that would create an object but has a uid."""


async def create(
    resource: WritableResource, ctx: Context, version: str, body: DecodedBody, gate: Gate, *, applied: bool = False
) -> MutationResult:
    """Create the object in `body`. A generateName is turned into a name before admission sees the object.

    `applied` says that server-side apply creates it and has set managedFields already.

    Raises AlreadyExists, InvalidObject, BadRequest, and what admission refuses with.
    """
    write = WriteRequest(resource, ctx, version, gate, "CREATE")
    if body.offload_bytes:
        write.set_offload_bytes(body.offload_bytes)
    await write.normalize(body)
    metadata = body.tree["metadata"]
    if ctx.target.name:  # of the name in the URL it was asked whether the user may create it
        check_place(metadata, ctx.target, namespaced=write.definition.namespaced)
    else:
        fill_namespace(metadata, ctx.target.namespace, namespaced=write.definition.namespaced)
    wipe_system(metadata)
    if write.definition.name_rule == "none":
        body.tree["metadata"] = {name: metadata[name] for name in ("namespace",) if name in metadata}
        return await _question(write, body)
    if not metadata.get("generateName"):
        return await _create_attempt(write, body, applied)
    attempt = partial(_create_attempt, write, applied=applied)
    return await with_generated_name(body, ctx, write.definition, resource.settings, attempt)


async def _question(write: WriteRequest, body: DecodedBody) -> MutationResult:
    """The answer to the creation of an object that isn't stored, such as a review."""
    new = body.tree
    if write.reviewers is not None:
        new = await write.mutated(write.reviewers, new, None, body)
    return await write.object_storage.create(write, await finish(write, new, None))


async def _create_attempt(write: WriteRequest, body: DecodedBody, applied: bool) -> MutationResult:
    resource, ctx, new = write.resource, write.ctx, body.tree
    try:
        write.part.clear(new, write.compiled.default)
        if not applied:
            new = await tracked(write, None, new)
        if write.definition.initializers:
            await begin_initializing(write, new)
        if write.reviewers is not None:
            new = await write.mutated(write.reviewers, new, None, body)
        if write.hooks.reserve is not None:
            new = await write.reserved(new, None, body)
        fill_new(new["metadata"], ctx, write.definition, resource.settings.random(16))
        write.part.clear(new, write.compiled.default)  # nor can admission set it
        made = await finish(write, new, None)
        if not ctx.dry_run:
            check_unversioned(made.tree["metadata"])
            if made.hub is not None:
                made.hub["metadata"].pop("resourceVersion", None)
        write.claims.storing = True
        return await write.object_storage.create(write, made)
    except BaseException as error:
        await write.claims.end(error)
        raise


async def with_generated_name(
    body: DecodedBody,
    ctx: Context,
    definition: ResourceDefinition,
    settings: Settings,
    attempt: Callable[[DecodedBody], Awaitable[MutationResult]],
) -> MutationResult:
    """The result of `attempt` with the first generated name that isn't taken.

    Each attempt gets a copy of the body, and starts with the warnings there were before. Raises AlreadyExists when
    every name was taken, and what `attempt` raises.
    """
    base, name = body.tree["metadata"]["generateName"], body.tree["metadata"].get("name")
    if name:
        try:
            return await attempt(body)
        except AlreadyExists as taken:
            raise taken.although_generated() from None
    workers = settings.workers
    pristine, mark = await workers.go_on(body.offload_bytes, copy_tree, body.tree), ctx.notes.mark()
    for _ in range(NAME_ATTEMPTS):
        ctx.notes.rewind(mark)
        name = generate_name(base, settings.random(5))
        tree = await workers.go_on(body.offload_bytes, copy_tree, pristine)
        tree["metadata"]["name"] = name
        try:
            return await attempt(DecodedBody(tree, body.wording, offload_bytes=body.offload_bytes))
        except AlreadyExists:
            continue
    raise AlreadyExists(definition.group_resource, name).although_generated()


class Change(Struct, eq=False, frozen=True):
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
    if change.offload_bytes:
        write.set_offload_bytes(change.offload_bytes)
    mark = ctx.notes.mark()
    for _ in range(write.object_storage.attempts):
        try:
            live = await write.object_storage.get(write, replaces=change.replaces)
        except NotFound:
            result = await _absent(write, change)
        else:
            if live is not None and live.offload_bytes:
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
    if write.offload_bytes or write.served.converter.waits:
        body = await _changed(write, change, stored)
    else:
        body = change.make({} if change.replaces or stored is None else stored.copy())
    if invalid is not None:
        body.tree = invalid.shown(write, body.tree, refused)
    await write.normalize(body)
    _check_identity(write, body.tree, live, change)
    if live is not None:
        body.tree = write.part.confine(body.tree, live.tree if live.whole else {})
    precondition = _precondition(write, body.tree, live, change)
    new = body.tree
    if stored is not None and not change.applies:
        new = await invalid.tracked(write, new) if invalid is not None else await tracked(write, stored.tree, new)
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

    make = change.make
    try:
        if change.replaces or live is None:
            return make({}) if not write.offload_bytes else await write.offload(make, {})
        return make(live.copy()) if not write.offload_bytes else await write.offload(lambda: make(live.copy()))
    except NeedsConversion as needed:
        trees = [] if live is None else [live.tree]
        return await needed.then(
            lambda: make({} if change.replaces or live is None else live.copy()), trees, write.offload
        )


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


async def finish(write: WriteRequest, new: Tree, live: LiveObject | None) -> CheckedObject:
    """Run hooks, validation and validating admission on `new`, which is in the request version.

    Raises InvalidObject with every error, and what a conversion refuses with.
    """
    definition, hooks = write.definition, write.hooks
    hub_new = hub_old = None
    if hooks.prepare is not None or hooks.validate is not None or write.version != definition.stored_as:
        try:
            if live is not None:
                in_its_version = write.version == definition.hub
                hub_old = live.tree if in_its_version else await write.object_storage.live_hub(write, live)
            if write.version == definition.hub:
                hub_new = new
            else:
                hub_new, hub_old = await in_hub(write, new, hub_old)
            if hooks.prepare is not None:
                unread = frozenset[str]() if live is None else live.unread
                new, hub_new = await prepared(write, new, hub_new, hub_old, unread)
        except (ViewError, ConversionError) as error:
            await write.offload(_refuse, write, new, live, error)
    if write.offload_bytes:
        await write.offload(_check, write, new, live, hub_new, hub_old)
    else:
        _check(write, new, live, hub_new, hub_old)
    if write.reviewers is not None:
        old = None if live is None else live.tree
        await write.reviewers.validate(new, old, write.offload, Hub(hub_new, hub_old))
        if write.reviewers.reserves:
            await write.reviewers.reserve(new, old, write.claims)
    return CheckedObject(new, hub_new)


async def in_hub(request: HookedRequest, new: Tree, hub_old: Tree | None) -> tuple[Tree, Tree | None]:
    """`new` in the hub version, and the live object there, as given.

    Fields a spoke can't represent come from the live object.
    """
    version, definition, converter = request.version, request.definition, request.served.converter
    if version == definition.hub:
        return new, hub_old
    copy = (
        copy_unless_pure(converter, new)
        if not request.offload_bytes
        else await request.offload(copy_unless_pure, converter, new)
    )
    hub_new = await request.convert(copy, version, definition.hub)
    # the stored version lacks nothing of what is stored: nothing to carry over
    if hub_old is not None and version != definition.stored_as:
        hub_new = await request.offload(converter.carry_over, hub_new, hub_old, version)
    return hub_new, hub_old


async def prepared(
    request: HookedRequest, new: Tree, hub_new: Tree, hub_old: Tree | None, unread: frozenset[str] = frozenset()
) -> tuple[Tree, Tree]:
    """What the resource's `prepare` makes of `new`: in its version, and in the hub.

    `hub_new` and `hub_old` are the new and the live object there. The fields `unread` of the live object stay as they
    are.
    """
    definition = request.definition
    hub_new = await request.offload(_prepare, request, hub_new, hub_old)
    if unread and hub_old is not None and request.version == definition.hub:
        hub_new = fields_of(hub_new, hub_old, unread)
    if request.version == definition.hub:
        return hub_new, hub_new
    return await request.convert(await request.offload(copy_tree, hub_new), definition.hub, request.version), hub_new


def _prepare(request: HookedRequest, new: Tree, old: Tree | None) -> Tree:
    """Run the resource's `prepare`, in the hub version."""
    prepare = request.hooks.prepare
    if prepare is None:
        return new
    return prepare(new, old, request.ctx) if request.hooks.threadsafe else on_the_loop(prepare, new, old, request.ctx)


def _check(write: WriteRequest, new: Tree, live: LiveObject | None, hub_new: Tree | None, hub_old: Tree | None) -> None:
    """Set generation, and raise InvalidObject with the errors of schema, metadata and the `validate` hook."""
    if live is not None and write.definition.generation and write.part.counts:
        _count_change(write, new, live, hub_new, hub_old)
    found = _violations(write, new, live)
    if write.hooks.validate is not None and hub_new is not None:
        found += hook_errors(write, hub_new, hub_old, found)
    if live is not None and live.unread:
        found = _about_the_rest(write, found, new, live)
    if found:
        raise InvalidObject(write.definition.hub_kind, new["metadata"].get("name", ""), found)


def hook_errors(
    request: HookedRequest, hub_new: Tree, hub_old: Tree | None, found: list[FieldError]
) -> list[FieldError]:
    """What the resource's `validate` finds, in the hub version, that isn't among `found`."""
    validate = request.hooks.validate
    if validate is None:
        return []
    try:
        if request.hooks.threadsafe:
            return [*validate(hub_new, hub_old, request.ctx)]
        return [*on_the_loop(validate, hub_new, hub_old, request.ctx)]
    except ViewError as error:
        return _not_already_reported(found, error)


def _refuse(write: WriteRequest, new: Tree, live: LiveObject | None, error: ViewError | ConversionError) -> None:
    """Raise InvalidObject for an object of which there is no hub version, if it breaks its schema; else `error`."""
    found = _violations(write, new, live)
    if isinstance(error, ViewError):
        found += _not_already_reported(found, error)
    if not found:
        raise error
    raise InvalidObject(write.definition.hub_kind, new["metadata"].get("name", ""), found) from error


def _count_change(write: WriteRequest, new: Tree, live: LiveObject, hub_new: Tree | None, hub_old: Tree | None) -> None:
    """Set generation after `prepare`, whose changes count too.

    Compares hub versions if available: a spoke may lack fields.
    """
    definition, metadata = write.definition, live.tree["metadata"]
    if "generation" not in metadata and not write.object_storage.keeps_metadata:
        return
    if hub_new is not None and hub_old is not None:
        changed = differ(definition, definition.hub, hub_new, hub_old)
    else:
        changed = differ(definition, write.version, new, live.tree)
    if changed:
        generation = metadata.get("generation", 0) + 1
        new["metadata"]["generation"] = generation
        if hub_new is not None:
            hub_new["metadata"]["generation"] = generation


def _violations(write: WriteRequest, new: Tree, live: LiveObject | None) -> list[FieldError]:
    """The errors of metadata and schema validation."""
    definition, metadata = write.definition, new["metadata"]
    found: list[FieldError] = validate_object_meta(
        metadata, namespaced=definition.namespaced, name_rule=definition.name_rule
    )
    if not definition.typed:
        scale = definition.version(write.version).scale
        found += replica_errors(scale, new) if scale is not None else ()
    if live is None:
        return found + write.compiled.validate(new, None)
    changes = validate_object_meta_update(metadata, live.tree["metadata"])
    if definition.repeats_metadata_errors:
        changes = [*found, *changes] * 2
    found += changes
    forgiven: list[FieldError] = []
    found += write.compiled.validate(new, live.tree if live.whole else None, forgiven)
    if not definition.typed:
        for error in forgiven:
            write.ctx.warn(error.message)
    return found


def _about_the_rest(write: WriteRequest, found: list[FieldError], new: Tree, live: LiveObject) -> list[FieldError]:
    """The errors that aren't about what can't be read; nor about the whole object, if only metadata has changed."""
    left_out = {*live.unread}
    if not differ(write.definition, write.version, new, live.tree) and new.get("status") == live.tree.get("status"):
        left_out.add("")
    return [error for error in found if top_of(error.path) not in left_out]


def _not_already_reported(found: list[FieldError], unreadable: ViewError) -> list[FieldError]:
    """The type's errors for fields in which schema validation found none."""
    paths = {error.path for error in found}
    return [error for error in unreadable.errors if error.path not in paths]
