"""The recipes of CREATE, PUT and PATCH for a virtual resource: as for a stored one, with the user's methods as store.

managedFields work if the user stores them: for an object that comes back without them, only an apply sets owners.
Must not know: URLs, media types. See also: `virtual_resource`, which reads and deletes; `create` and `update`, the same
for stored resources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from oarlock.meta.context import Context
from oarlock.meta.errors import AlreadyExists, Conflict, MethodNotAllowed, NotFound, ServerTimeout
from oarlock.patch.apply.tracking import keep_times
from oarlock.registry.body import DecodedBody, settle
from oarlock.registry.conversion import copy_tree
from oarlock.registry.field_conversions import MustConvert
from oarlock.registry.gate import AdmissionRequest, Gate, Reviewers
from oarlock.registry.generated_names import with_generated_name
from oarlock.registry.managed_fields import tracked, unbroken
from oarlock.registry.metadata import (
    check_place,
    differ,
    fill_new,
    keep_status,
    keep_system,
    only_status,
    settle_namespace,
    wipe_system,
)
from oarlock.registry.results import MutationResult, TreeItem
from oarlock.registry.served import Tree
from oarlock.registry.update import NO_SUCH_UID, Change
from oarlock.registry.virtual_resource import VirtualResource
from oarlock.schema.folding import same

__all__ = ["UPDATE_ATTEMPTS", "create", "update"]

UPDATE_ATTEMPTS = 16
"""The most attempts of a patch while the user's storage raises Conflict."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Write:
    """The parameters of one write."""

    resource: VirtualResource
    ctx: Context
    version: str
    gate: Gate
    reviewers: Reviewers | None
    size: int = 0
    """The `workers.weight` of what is sent."""

    @property
    def has_status(self) -> bool:
        return self.resource.definition.version(self.version).status

    async def offload(self, step: Callable[..., T], /, *args: Any) -> T:
        """Run a pure step, in a thread if the object is large."""
        return await self.resource.offload(self.size, step, *args) if self.size else step(*args)

    async def convert(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        """A copy of `tree` in another version."""
        return await self.resource.convert(await self.offload(copy_tree, tree), from_version, to_version, self.size)

    async def shown(self, made: Tree) -> Tree:
        """The user's result in the request version; it must not be used afterwards."""
        return await self.resource.convert(made, self.resource.definition.hub, self.version, self.size)

    async def settle(self, body: DecodedBody) -> None:
        await self.offload(settle, body, self.resource.compiled[self.version], self.resource.served.hooks, self.ctx)


def _reviewers(resource: VirtualResource, ctx: Context, gate: Gate, operation: str) -> Reviewers | None:
    return gate.reviewers(AdmissionRequest(ctx, operation, resource.served))


async def create(
    resource: VirtualResource, ctx: Context, version: str, body: DecodedBody, gate: Gate, *, applied: bool = False
) -> MutationResult:
    """Create the object in `body` with the user's `create`; `applied` says that server-side apply creates it.

    Raises AlreadyExists, InvalidObject, BadRequest, and what admission or the user's method refuses with.
    """
    if resource.methods.create is None:
        raise MethodNotAllowed(resource.definition.group_resource, "create")
    write = _Write(resource, ctx, version, gate, _reviewers(resource, ctx, gate, "CREATE"), body.weight)
    await write.settle(body)
    metadata = body.tree["metadata"]
    settle_namespace(metadata, ctx.target.namespace, namespaced=resource.definition.namespaced)
    wipe_system(metadata)
    if not metadata.get("generateName"):
        return await _create(write, body, applied)
    attempt = partial(_create, write, applied=applied)
    return await with_generated_name(body, ctx, resource.definition, resource.settings, attempt)


async def _create(write: _Write, body: DecodedBody, applied: bool) -> MutationResult:
    resource, ctx = write.resource, write.ctx
    keep = resource.methods.create
    assert keep is not None
    if write.has_status:
        body.tree.pop("status", None)
    new = body.tree if applied else await tracked(resource.fields, None, body.tree, ctx, write.offload)
    if write.reviewers is not None:
        new = await _mutated(write, write.reviewers, new, None, body)
    fill_new(new["metadata"], ctx, resource.definition, resource.settings.random(16))
    if write.has_status:
        new.pop("status", None)  # nor can admission set it
    await write.offload(resource.validate, ctx, new, None, write.version)
    if write.reviewers is not None:
        await write.reviewers.validate(new, None, write.offload)
    if await resource.taken(ctx, new):
        raise AlreadyExists(resource.definition.group_resource, new["metadata"]["name"])
    if ctx.dry_run and "create" not in resource.methods.takes_dry_run:
        return MutationResult(TreeItem(new), created=True)
    hub = await write.convert(new, write.version, resource.definition.hub)
    made = resource.complete(await keep(hub, ctx, ctx.dry_run))
    if not ctx.dry_run:
        resource.wrote()
    return MutationResult(TreeItem(await write.shown(made)), created=True)


async def update(
    resource: VirtualResource, ctx: Context, version: str, change: Change, gate: Gate, *, status: bool = False
) -> MutationResult:
    """Apply `change` and call the user's `update`, unless nothing has changed.

    A patch without a resourceVersion is retried on the newer object when the user's method raises `Conflict`. An apply
    creates a missing object if there is a `create`. Raises NotFound, Conflict, InvalidObject, BadRequest, and what
    admission or the user's method refuses with.
    """
    if resource.methods.update is None or (resource.methods.get is None and not change.replaces):
        raise MethodNotAllowed(resource.definition.group_resource, "update")
    write = _Write(resource, ctx, version, gate, _reviewers(resource, ctx, gate, "UPDATE"), change.weight)
    mark = ctx.notes.mark()
    for _ in range(UPDATE_ATTEMPTS):
        try:
            live = await resource.live(ctx) if resource.methods.get is not None else None
        except NotFound:
            outcome = await _absent(write, change, status)
        else:
            outcome = await _update(write, change, live, status)
        if outcome is not None:
            return outcome
        ctx.notes.rewind(mark)
        if ctx.clock.monotonic() > ctx.deadline:
            break
    raise ServerTimeout(resource.definition.group_resource, "update")


async def _absent(write: _Write, change: Change, status: bool) -> MutationResult | None:
    """The object doesn't exist: an apply creates it, and a PUT if allowed.

    None if another writer created it meanwhile.
    """
    resource, ctx = write.resource, write.ctx
    definition = resource.definition
    creates = change.applies or (change.replaces and definition.create_on_update)
    if not creates or status or ctx.target.subresource or resource.methods.create is None:
        raise NotFound(definition.group_resource, ctx.target.name)
    body = await write.offload(change.make, {})
    body.weight = write.size
    await write.settle(body)
    metadata = body.tree["metadata"]
    check_place(metadata, ctx.target, namespaced=definition.namespaced)
    if metadata.get("uid"):
        raise Conflict(definition.group_resource, ctx.target.name, NO_SUCH_UID.format(metadata["uid"]))
    await write.gate.may(ctx, "create")
    metadata.pop("resourceVersion", None)
    try:
        return await create(resource, ctx, write.version, body, write.gate, applied=change.applies)
    except AlreadyExists:
        if not await resource.taken(ctx, body.tree):
            raise
        return None


async def _update(write: _Write, change: Change, live: Tree | None, status: bool) -> MutationResult | None:
    """One attempt on one state of the object, None if there is no `get`. Returns None when another write came first."""
    resource, ctx, version = write.resource, write.ctx, write.version
    definition = resource.definition
    old = await write.convert(live, definition.hub, version) if live is not None else None
    body = await _made(write, change, old)
    await write.settle(body)
    check_place(body.tree["metadata"], ctx.target, namespaced=definition.namespaced)
    if old is not None and write.has_status:
        keep = only_status if status else keep_status
        body.tree = keep(body.tree, await write.offload(copy_tree, old))
    if old is not None and change.replaces:
        _check_uid(write, body.tree["metadata"].get("uid"), old["metadata"].get("uid"))
    expected = body.tree["metadata"].get("resourceVersion") or ""
    if old is not None and expected and expected != old["metadata"].get("resourceVersion", expected):
        raise Conflict(definition.group_resource, ctx.target.name)
    new = body.tree
    if old is not None and not change.applies:
        new = await tracked(resource.fields, old, new, ctx, write.offload)
    if write.reviewers is not None:
        new = await _mutated(write, write.reviewers, new, old, body)
    if old is not None:
        _keep_system(write, new, old, status)
    await write.offload(resource.validate, ctx, new, old, version)
    if write.reviewers is not None:
        await write.reviewers.validate(new, old, write.offload)
    if old is not None and await write.offload(_unchanged, new, old):
        return MutationResult(TreeItem(old))
    if ctx.dry_run and "update" not in resource.methods.takes_dry_run:
        return MutationResult(TreeItem(new))
    try:
        return await _keep(write, new, live, expected)
    except Conflict:
        if change.replaces:
            raise
        return None


def _check_uid(write: _Write, asked: str | None, found: str | None) -> None:
    """Check the uid of a PUT; storage that keeps no uids isn't checked."""
    if asked and found and asked != found:
        why = f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}"
        raise Conflict(write.resource.definition.group_resource, write.ctx.target.name, why)


async def _keep(write: _Write, new: Tree, live: Tree | None, expected: str) -> MutationResult:
    resource, ctx, hub = write.resource, write.ctx, write.resource.definition.hub
    keep = resource.methods.update
    assert keep is not None
    tree = await write.convert(new, write.version, hub)
    if live is not None and write.version != hub:
        tree = await write.offload(resource.served.converter.carry_over, tree, live, write.version)
    made = resource.complete(await keep(tree, expected, ctx, ctx.dry_run))
    if not ctx.dry_run:
        resource.wrote()
    return MutationResult(TreeItem(await write.shown(made)))


async def _made(write: _Write, change: Change, old: Tree | None) -> DecodedBody:
    if change.replaces or old is None:
        return await write.offload(change.make, {})
    try:
        return await write.offload(lambda: change.make(copy_tree(old)))
    except MustConvert as needed:
        return await needed.then(lambda: change.make(copy_tree(old)), [old], write.offload)


async def _mutated(write: _Write, reviewers: Reviewers, new: Tree, old: Tree | None, body: DecodedBody) -> Tree:
    """The object after mutating admission, settled again. Admission can't change its name or namespace."""
    kept = {name: new["metadata"].get(name) for name in ("name", "namespace")}
    changed = await reviewers.mutate(new, old, write.offload)
    if changed is None or changed is new:
        return new
    again = DecodedBody(changed, body.wording, derived=True)
    await write.settle(again)
    metadata = again.tree["metadata"]
    for name, value in kept.items():
        metadata.pop(name, None)
        if value is not None:
            metadata[name] = value
    return unbroken(new, again.tree, write.ctx)


def _keep_system(write: _Write, new: Tree, old: Tree, status: bool) -> None:
    definition = write.resource.definition
    keep_system(new["metadata"], old["metadata"])
    counted = definition.generation and not status and "generation" in old["metadata"]
    if counted and differ(definition, write.version, new, old):
        new["metadata"]["generation"] = old["metadata"]["generation"] + 1


def _unchanged(new: Tree, old: Tree) -> bool:
    """Whether nothing has changed. Timestamps in managedFields alone are no change."""
    version = old["metadata"].get("resourceVersion")
    if version and not new["metadata"].get("resourceVersion"):
        new = {**new, "metadata": {**new["metadata"], "resourceVersion": version}}
    return same(keep_times(old, new), old)
