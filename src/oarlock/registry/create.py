"""The recipe of CREATE. See also: `update`."""

from __future__ import annotations

from functools import partial

import msgspec

from oarlock.meta.context import Context
from oarlock.meta.errors import AlreadyExists
from oarlock.registry.body import DecodedBody, settle
from oarlock.registry.gate import Gate, Reviewers
from oarlock.registry.generated_names import with_generated_name
from oarlock.registry.managed_fields import tracked, unbroken
from oarlock.registry.metadata import fill_new, is_deleting, settle_namespace, wipe_system
from oarlock.registry.readiness import Ready
from oarlock.registry.results import EntryItem, MutationResult, TreeItem
from oarlock.registry.served import Tree
from oarlock.registry.steps import WriteRequest, finish
from oarlock.registry.stored_resource import StoredResource
from oarlock.storage.backend import KV, OutcomeUnknown, StorageError
from oarlock.storage.cache.entry import Entry

__all__ = ["create"]


async def create(
    resource: StoredResource, ctx: Context, version: str, body: DecodedBody, gate: Gate, *, applied: bool = False
) -> MutationResult:
    """Create the object in `body`. A generateName is turned into a name before admission sees the object.

    `applied` says that server-side apply creates it and has set managedFields already.

    Raises AlreadyExists, InvalidObject, BadRequest, and what admission refuses with.
    """
    write = WriteRequest.begin(resource, ctx, version, gate, "CREATE").weighing(body.weight)
    await write.offload(settle, body, resource.compiled[version], resource.served.hooks, ctx)
    metadata = body.tree["metadata"]
    settle_namespace(metadata, ctx.target.namespace, namespaced=resource.definition.namespaced)
    wipe_system(metadata)
    if not metadata.get("generateName"):
        return await _attempt(write, body, applied)
    attempt = partial(_attempt, write, applied=applied)
    return await with_generated_name(body, ctx, resource.definition, resource.settings, attempt)


async def _attempt(write: WriteRequest, body: DecodedBody, applied: bool) -> MutationResult:
    resource, ctx = write.resource, write.ctx
    if resource.definition.version(write.version).status:
        body.tree.pop("status", None)
    new = body.tree if applied else await tracked(resource.fields, None, body.tree, ctx, write.offload)
    name = new["metadata"].get("name", "")
    if write.reviewers is not None:
        new = unbroken(new, await _mutated(write, write.reviewers, new, body), ctx)
    metadata = new["metadata"]
    fill_new(metadata, ctx, resource.definition, resource.settings.random(16))
    if resource.definition.version(write.version).status:
        new.pop("status", None)  # nor can admission set it
    made = await finish(write, new, None)
    key = resource.key(metadata.get("namespace", ""), name)
    if ctx.dry_run:
        await resource.fresh()
        taken = resource.cache.get(key)
        if taken is not None:
            deleting = not taken.broken and is_deleting((await resource.tree(taken, write.version))["metadata"])
            error = AlreadyExists(resource.definition.group_resource, name)
            raise error.while_deleted() if deleting else error
        return MutationResult(TreeItem(made.shown), created=True)
    return await _put(write, key, made)


async def _mutated(write: WriteRequest, reviewers: Reviewers, new: Tree, body: DecodedBody) -> Tree:
    """The object after mutating admission, settled again. Admission can't change its name or namespace."""
    changed = await reviewers.mutate(new, None, write.offload)
    if changed is None or changed is new:
        return new
    again = DecodedBody(changed, body.wording, derived=True)
    await write.offload(settle, again, write.resource.compiled[write.version], write.resource.served.hooks, write.ctx)
    metadata = again.tree["metadata"]
    metadata["name"] = new["metadata"].get("name", "")
    metadata.pop("namespace", None)
    settle_namespace(metadata, write.ctx.target.namespace, namespaced=write.resource.definition.namespaced)
    return again.tree


async def _put(write: WriteRequest, key: str, made: Ready) -> MutationResult:
    resource, stored = write.resource, made.stored
    encoded = await write.encode(stored, made.fields)
    ttl = resource.definition.ttl_s
    try:
        result, entry = await resource.cache.put(
            key,
            resource.form.value_of(encoded.tail),
            expect=0,
            ttl_ms=None if ttl is None else ttl * 1000,
            draft=lambda rev, create_rev: resource.form.entry(key, encoded, (rev, create_rev)),
        )
    except OutcomeUnknown:
        found = await _arrived(resource, key, stored["metadata"]["uid"])
        if found is None:
            raise
        return MutationResult(EntryItem(resource, found), created=True)
    if not result.ok or entry is None:
        error = AlreadyExists(resource.definition.group_resource, stored["metadata"]["name"])
        raise error.while_deleted() if _being_deleted(result.current) else error
    if made.answer is not None:
        await resource.answered(entry, write.version, made.answer)
    return MutationResult(EntryItem(resource, entry), created=True)


async def _arrived(resource: StoredResource, key: str, uid: str) -> Entry | None:
    """The object, if its write succeeded although the result was lost: its uid is new for this request."""
    try:
        await resource.fresh()
    except StorageError:
        return None
    entry = resource.cache.get(key)
    if entry is None or entry.broken:
        return None
    tree = await resource.tree(entry, resource.definition.stored_as)
    return entry if tree["metadata"].get("uid") == uid else None


def _being_deleted(current: KV | None) -> bool:
    if current is None:
        return False
    try:
        return is_deleting(msgspec.json.decode(current.value)["metadata"])
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return False
