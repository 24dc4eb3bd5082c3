"""The recipe of DELETE.

An object with finalizers only gets a deletionTimestamp; the update that removes its last finalizer removes it. Source:
the API conventions on deletion; ``propagationPolicy`` as the garbage collector defines it; KEP-3926 for objects that
can't be read. See also: `metadata.mark_deleted`; `update`, which removes objects marked for deletion.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from oarlock.meta.context import Context
from oarlock.meta.errors import Conflict, InvalidObject, ServerTimeout
from oarlock.meta.fielderrors import Forbidden, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.meta.options import DeleteOptions
from oarlock.registry.read.recipes import MutationResult
from oarlock.registry.write.metadata import is_deleting
from oarlock.registry.write.write_request import Gate, LiveObject, WritableResource, WriteRequest

__all__ = ["delete"]

UNSAFE_VERB = "unsafe-delete-ignore-read-errors"
"""What a user must also be allowed to do who removes an object that can't be read."""

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


async def delete(
    resource: WritableResource, ctx: Context, version: str, options: DeleteOptions, gate: Gate
) -> MutationResult:
    """Delete the object that `ctx.target` names, or set its deletionTimestamp.

    Raises NotFound, Conflict when a precondition fails, and what admission refuses with.
    """
    write = WriteRequest(resource, ctx, version, gate, "DELETE")
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        await gate.may(ctx, UNSAFE_VERB)
        return await _retried(write, lambda: _unsafe_attempt(write))
    if write.object_storage.keeps_metadata:
        _check_policy(write, options)

    async def attempt() -> MutationResult | None:
        return await _attempt(write, await write.object_storage.find(write), options)

    return await _retried(write, attempt)


async def _retried(write: WriteRequest, attempt: Callable[[], Awaitable[MutationResult | None]]) -> MutationResult:
    """The result of the first attempt that no other write overtakes, until the request's deadline."""
    ctx = write.ctx
    mark = ctx.notes.mark()
    while True:
        result = await attempt()
        if result is not None:
            return result
        ctx.notes.rewind(mark)
        if ctx.clock.monotonic() > ctx.deadline:
            raise ServerTimeout(write.definition.group_resource, "delete")


async def _unsafe_attempt(write: WriteRequest) -> MutationResult | None:
    """Remove an object that can't be decoded. Admission is asked without an object."""
    if write.reviewers is not None:
        await write.reviewers.mutate(None, None, write.offload)
        await write.reviewers.validate(None, None, write.offload)
    return await write.object_storage.delete_unreadable(write)


async def _attempt(write: WriteRequest, live: LiveObject | None, options: DeleteOptions) -> MutationResult | None:
    """One attempt on one state of the object; None when another write came first."""
    old = None
    finalizers: list[str] = []
    if live is not None:
        old = live.tree
        write.set_offload_bytes(live.offload_bytes)
        _check_preconditions(write, options, old["metadata"])
    if write.reviewers is not None:
        await write.reviewers.mutate(None, old, write.offload)
        await write.reviewers.validate(None, old, write.offload)
    if old is not None and write.hooks.grace_s is not None:
        write.grace_s = max(0, write.hooks.grace_s(old, options.grace_period_seconds))
    if old is not None and write.object_storage.keeps_metadata:
        finalizers = _finalizers(write, options, old["metadata"])
    return await write.object_storage.delete(write, live, finalizers)


def _check_policy(write: WriteRequest, options: DeleteOptions) -> None:
    """Refuse policies that need a garbage collector when there is none to remove their finalizers."""
    if write.resource.settings.garbage_collection == "external":
        return
    why = "this server has no garbage collector; use Background"
    kind = GroupKind("meta.k8s.io", "DeleteOptions")
    if options.propagation_policy in ("Foreground", "Orphan"):
        raise InvalidObject(kind, "", [Invalid("propagationPolicy", options.propagation_policy, why)])
    if options.orphan_dependents:
        raise InvalidObject(kind, "", [Forbidden("orphanDependents", why)])


def _finalizers(write: WriteRequest, options: DeleteOptions, metadata: Tree) -> list[str]:
    """The finalizers the object is to have: those of others, of the resource, and the one for the propagation policy.

    They keep their order when none is added or removed.
    """
    present, deleting = metadata.get("finalizers") or [], is_deleting(metadata)
    wanted, cleanup = _policy(write, options, present), write.definition.cleanup_finalizer
    needed = [f for f in present if f not in (ORPHAN, FOREGROUND)]
    if cleanup and cleanup not in needed and not deleting:
        needed.append(cleanup)
    if wanted:
        needed.append(wanted)
    return present if set(needed) == set(present) else needed


def _policy(write: WriteRequest, options: DeleteOptions, present: list[str]) -> str:
    """By precedence: orphanDependents, propagationPolicy, the object's finalizers, the resource's default."""
    if options.orphan_dependents is not None:
        return ORPHAN if options.orphan_dependents else ""
    if options.propagation_policy is not None:
        return {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.propagation_policy, "")
    for finalizer in (ORPHAN, FOREGROUND):
        if finalizer in present:
            return finalizer
    if write.definition.gc_default == "orphan" and write.resource.settings.garbage_collection == "external":
        return ORPHAN
    return ""


def _check_preconditions(write: WriteRequest, options: DeleteOptions, metadata: Tree) -> None:
    wanted = options.preconditions
    if wanted is None:
        return
    name, kind = write.ctx.target.name, write.definition.group_kind
    uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    if wanted.uid is not None and wanted.uid != uid:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
        raise Conflict(kind, name, why)
    if wanted.resource_version is not None and wanted.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the "
            f"ResourceVersion in record ({version}). The object might have been modified"
        )
        raise Conflict(kind, name, why)
