"""The recipe of DELETE.

An object with finalizers only gets a deletionTimestamp; the update that removes its last finalizer removes it. Source:
the API conventions on deletion; ``propagationPolicy`` as the garbage collector defines it. See also:
`metadata.mark_deleted`; `update`, which removes objects marked for deletion.
"""

from __future__ import annotations

from functools import partial

from oarlock.meta.context import Context
from oarlock.meta.errors import Conflict, InvalidObject, ServerTimeout
from oarlock.meta.fielderrors import Forbidden, Invalid
from oarlock.meta.kinds import GroupKind
from oarlock.meta.options import DeleteOptions
from oarlock.registry.gate import AdmissionRequest, Gate
from oarlock.registry.metadata import is_deleting, mark_deleted
from oarlock.registry.results import EntryItem, MutationResult, TreeItem
from oarlock.registry.served import Tree
from oarlock.registry.stored_resource import StoredResource
from oarlock.registry.workers import weight
from oarlock.storage.backend import KEEP_TTL
from oarlock.storage.cache.entry import Entry

__all__ = ["delete"]

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


async def delete(
    resource: StoredResource, ctx: Context, version: str, options: DeleteOptions, gate: Gate
) -> MutationResult:
    """Delete the object that `ctx.target` names, or set its deletionTimestamp.

    Raises NotFound, Conflict when a precondition fails, and what admission refuses with.
    """
    _check_policy(resource, options)
    mark = ctx.notes.mark()
    while True:
        await resource.fresh()
        outcome = await _attempt(resource, ctx, resource.find(ctx), version, options, gate)
        if outcome is not None:
            return outcome
        ctx.notes.rewind(mark)
        if ctx.clock.monotonic() > ctx.deadline:
            raise ServerTimeout(resource.definition.group_resource, "delete")


async def _attempt(
    resource: StoredResource, ctx: Context, entry: Entry, version: str, options: DeleteOptions, gate: Gate
) -> MutationResult | None:
    stored = await resource.tree(entry, resource.definition.stored_as)
    metadata = stored["metadata"]
    _check_preconditions(resource, ctx, options, metadata)
    reviewers = gate.reviewers(AdmissionRequest(ctx, "DELETE", resource.served))
    if reviewers is not None:
        offload = partial(resource.offload, weight(entry.body))
        old = await resource.old(entry, version)
        await reviewers.mutate(None, old, offload)
        await reviewers.validate(None, old, offload)
    finalizers = _finalizers(resource, options, metadata.get("finalizers") or [])
    if finalizers:
        return await _mark(resource, ctx, entry, version, stored, finalizers)
    if not ctx.dry_run:
        result = await resource.cache.delete(entry.key, expect=entry.rev)
        if not result.ok:
            return None
    return MutationResult(EntryItem(resource, entry), gone=True, uid=metadata.get("uid", ""), name=entry.name)


async def _mark(
    resource: StoredResource, ctx: Context, entry: Entry, version: str, stored: Tree, finalizers: list[str]
) -> MutationResult | None:
    metadata = stored["metadata"]
    marked = is_deleting(metadata)
    if marked and metadata.get("finalizers") == finalizers:
        return MutationResult(EntryItem(resource, entry))
    metadata["finalizers"] = finalizers
    if not marked:
        mark_deleted(metadata, ctx)
    if ctx.dry_run:
        return MutationResult(TreeItem(await resource.convert(stored, resource.definition.stored_as, version)))
    encoded = await resource.offload(weight(entry.body), resource.form.encode, stored)
    result, written = await resource.cache.put(
        entry.key,
        resource.form.value_of(encoded.tail),
        expect=entry.rev,
        ttl_ms=KEEP_TTL,
        draft=lambda rev, create_rev: resource.form.entry(entry.key, encoded, (rev, create_rev)),
    )
    return MutationResult(EntryItem(resource, written)) if result.ok and written is not None else None


def _check_policy(resource: StoredResource, options: DeleteOptions) -> None:
    """Refuse policies that need a garbage collector when there is none: nobody would remove their finalizers."""
    if resource.settings.garbage_collection == "external":
        return
    why = "this server has no garbage collector; use Background"
    kind = GroupKind("meta.k8s.io", "DeleteOptions")
    if options.propagation_policy in ("Foreground", "Orphan"):
        raise InvalidObject(kind, "", [Invalid("propagationPolicy", options.propagation_policy, why)])
    if options.orphan_dependents:
        raise InvalidObject(kind, "", [Forbidden("orphanDependents", why)])


def _finalizers(resource: StoredResource, options: DeleteOptions, present: list[str]) -> list[str]:
    """The finalizers the object is to have: those of others, and the one for the propagation policy.

    They keep their order when none is added or removed.
    """
    wanted = _policy(resource, options, present)
    needed = [f for f in present if f not in (ORPHAN, FOREGROUND)]
    if wanted:
        needed.append(wanted)
    return present if set(needed) == set(present) else needed


def _policy(resource: StoredResource, options: DeleteOptions, present: list[str]) -> str:
    """By precedence: orphanDependents, propagationPolicy, the object's finalizers, the resource's default."""
    if options.orphan_dependents is not None:
        return ORPHAN if options.orphan_dependents else ""
    if options.propagation_policy is not None:
        return {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.propagation_policy, "")
    for finalizer in (ORPHAN, FOREGROUND):
        if finalizer in present:
            return finalizer
    if resource.definition.gc_default == "orphan" and resource.settings.garbage_collection == "external":
        return ORPHAN
    return ""


def _check_preconditions(resource: StoredResource, ctx: Context, options: DeleteOptions, metadata: Tree) -> None:
    wanted = options.preconditions
    if wanted is None:
        return
    definition = resource.definition
    uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    if wanted.uid is not None and wanted.uid != uid:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
        raise Conflict(definition.group_kind, ctx.target.name, why)
    if wanted.resource_version is not None and wanted.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the "
            f"ResourceVersion in record ({version}). The object might have been modified"
        )
        raise Conflict(definition.group_kind, ctx.target.name, why)
