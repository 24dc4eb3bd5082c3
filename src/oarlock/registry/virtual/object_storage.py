"""`VirtualObjectStorage`: keeps the objects of a virtual resource with the user's methods.

managedFields work if the user stores them: for an object that comes back without them, only an apply sets owners. A dry
run calls a method only if it takes ``dry_run``. What a method returns is the answer.
Must not know: URLs, media types. See also: `write`, the interface; `virtual.resource`, which reads.
"""

from __future__ import annotations

from oarlock.meta.errors import AlreadyExists, Conflict, MethodNotAllowed
from oarlock.meta.json_trees import Tree
from oarlock.patch.apply.tracking import keep_times
from oarlock.registry.conversions import copy_tree
from oarlock.registry.read.recipes import MutationResult, TreeItem
from oarlock.registry.virtual.resource import VirtualResource
from oarlock.registry.write.write_request import (
    CheckedObject,
    LiveObject,
    Precondition,
    WriteRequest,
    readable_after_all,
)
from oarlock.schema.types.folding import same


class VirtualObjectStorage:
    """The `ObjectStorage` of a virtual resource."""

    keeps_metadata = False
    attempts = 16
    """The most attempts of a PATCH while the user's storage raises Conflict."""

    def __init__(self, resource: VirtualResource) -> None:
        self._resource = resource

    def key(self, write: WriteRequest) -> str:
        return ""

    async def get(self, write: WriteRequest, *, replaces: bool) -> LiveObject | None:
        resource, methods = self._resource, self._resource.methods
        if methods.update is None or (methods.get is None and not replaces):
            raise MethodNotAllowed(write.definition.group_resource, "update")
        if methods.get is None:
            return None
        hub = await resource.live(write.ctx)
        copy = await write.offload(copy_tree, hub)
        return LiveObject(await write.convert(copy, write.definition.hub, write.version), hub=hub)

    async def find(self, write: WriteRequest) -> LiveObject | None:
        resource = self._resource
        if resource.methods.delete is None:
            raise MethodNotAllowed(write.definition.group_resource, "delete")
        if resource.methods.get is None:
            return None
        return LiveObject(await resource.shown(await resource.live(write.ctx), write.version))

    async def live_hub(self, write: WriteRequest, live: LiveObject) -> Tree:
        assert live.hub is not None
        return live.hub

    async def create(self, write: WriteRequest, made: CheckedObject) -> MutationResult:
        resource, ctx, new = self._resource, write.ctx, made.tree
        asks = write.definition.name_rule == "none"
        if not asks and await resource.taken(ctx, new):
            raise AlreadyExists(write.definition.group_resource, new["metadata"]["name"])
        create = resource.methods.create
        assert create is not None
        if ctx.dry_run and not asks and "create" not in resource.methods.takes_dry_run:
            return MutationResult(TreeItem(new), created=True)
        return await self._answer(write, await create(await self._hub(write, made), ctx, ctx.dry_run), created=True)

    async def replace(
        self, write: WriteRequest, made: CheckedObject, live: LiveObject | None, precondition: Precondition
    ) -> MutationResult | None:
        resource, ctx, new = self._resource, write.ctx, made.tree
        if live is not None and await write.offload(_is_unchanged, new, live.tree):
            return MutationResult(TreeItem(live.tree))
        update = resource.methods.update
        assert update is not None
        if ctx.dry_run and "update" not in resource.methods.takes_dry_run:
            return MutationResult(TreeItem(new))
        hub = await self._hub(write, made)
        try:
            return await self._answer(write, await update(hub, precondition.version, ctx, ctx.dry_run))
        except Conflict:
            if precondition.replaces:
                raise
            return None

    async def delete(
        self, write: WriteRequest, live: LiveObject | None, finalizers: list[str]
    ) -> MutationResult | None:
        resource, ctx = self._resource, write.ctx
        delete, name = resource.methods.delete, ctx.target.name
        assert delete is not None
        shown = None if live is None else live.tree
        if not (ctx.dry_run and "delete" not in resource.methods.takes_dry_run):
            removed = await delete(ctx.target.namespace, name, ctx, ctx.dry_run)
            if shown is None and removed is not None:
                shown = await resource.shown(resource.complete(removed), write.version)
            if not ctx.dry_run:
                resource.wrote()
        shown = shown or {"metadata": {"name": name}}
        return MutationResult(TreeItem(shown), removed=True, uid=shown.get("metadata", {}).get("uid", ""), name=name)

    async def delete_unreadable(self, write: WriteRequest) -> MutationResult | None:
        raise readable_after_all(write)

    async def _hub(self, write: WriteRequest, made: CheckedObject) -> Tree:
        """The object in the hub version, for the user's methods."""
        if made.hub is not None:
            return made.hub
        return await write.convert(made.tree, write.version, write.definition.hub)

    async def _answer(self, write: WriteRequest, returned: Tree, *, created: bool = False) -> MutationResult:
        """The result of a user's method, in the request version."""
        resource = self._resource
        tree = resource.complete(returned)
        if not write.ctx.dry_run:
            resource.wrote()
        shown = await write.convert(tree, write.definition.hub, write.version)
        return MutationResult(TreeItem(shown), created=created)


def _is_unchanged(new: Tree, old: Tree) -> bool:
    """Whether nothing has changed. Timestamps in managedFields alone are no change."""
    version = old["metadata"].get("resourceVersion")
    if version and not new["metadata"].get("resourceVersion"):
        new = {**new, "metadata": {**new["metadata"], "resourceVersion": version}}
    return same(keep_times(old, new), old)
