"""The common second half of CREATE and UPDATE: from the settled object to the tree that is stored.

The order is always: hub version → `prepare` → metadata and schema validation of the request version → `validate` →
validating admission → stored version.
Must not know: how the object was made. See also: `create`, `update`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from oarlock.meta.context import Context
from oarlock.meta.errors import InvalidObject
from oarlock.meta.fielderrors import FieldError
from oarlock.registry.conversion import copy_tree, lend
from oarlock.registry.gate import AdmissionRequest, Gate, Reviewers
from oarlock.registry.metadata import differ
from oarlock.registry.readiness import LiveObject, Ready, ready
from oarlock.registry.served import Tree
from oarlock.registry.stored_form import Encoded
from oarlock.registry.stored_resource import StoredResource
from oarlock.schema.objectmeta import validate_object_meta, validate_object_meta_update
from oarlock.schema.views import ViewError

__all__ = ["WriteRequest", "besides", "finish"]


T = TypeVar("T")


class WriteRequest(NamedTuple):
    """The parameters of one write."""

    resource: StoredResource
    ctx: Context
    version: str
    gate: Gate
    reviewers: Reviewers | None
    size: int = 0
    """The `workers.weight` of its object."""

    @classmethod
    def begin(cls, resource: StoredResource, ctx: Context, version: str, gate: Gate, operation: str) -> WriteRequest:
        """A write, with the admission plugins that are interested in it now."""
        reviewers = gate.reviewers(AdmissionRequest(ctx, operation, resource.served))
        return cls(resource, ctx, version, gate, reviewers)

    def weighing(self, size: int) -> WriteRequest:
        """The same write, of an object of this `workers.weight`."""
        if not size or not self.resource.served.converter.threadsafe:
            return self
        return self._replace(size=size)

    async def offload(self, step: Callable[..., T], /, *args: Any) -> T:
        """Run a pure step, in a thread if the object is large."""
        return await self.resource.offload(self.size, step, *args) if self.size else step(*args)

    async def hook(self, hook: Callable[..., T], /, *args: Any) -> T:
        """Run a hook of the resource, in a thread if the object is large and the hook is threadsafe."""
        if self.size and self.resource.served.hooks.threadsafe:
            return await self.resource.offload(self.size, hook, *args)
        return hook(*args)

    async def encode(self, stored: Tree, fields: tuple[str, ...] | None) -> Encoded:
        """The object as it is stored; see `StoredForm.encode`."""
        form = self.resource.form
        if not self.size:
            return form.encode(stored, fields, large=False)
        return await self.resource.offload(self.size, form.encode, stored, fields)

    async def convert(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        """`tree` in another version; it must not be used afterwards."""
        return await self.resource.convert(tree, from_version, to_version, self.size)


async def finish(write: WriteRequest, new: Tree, live: LiveObject | None) -> Ready:
    """Run hooks, validation and validating admission on `new`, which is in the request version.

    Raises InvalidObject with every error, and what a conversion refuses with.
    """
    resource, version = write.resource, write.version
    definition, hooks = resource.definition, resource.served.hooks
    hub_new = hub_old = None
    if hooks.prepare is not None or hooks.validate is not None or version != definition.stored_as:
        try:
            hub_new, hub_old = await _in_hub(write, new, live)
            if hooks.prepare is not None:
                hub_new = await write.hook(hooks.prepare, hub_new, hub_old, write.ctx)
                new = (
                    hub_new
                    if version == definition.hub
                    else await write.convert(await write.offload(copy_tree, hub_new), definition.hub, version)
                )
        except ViewError as error:
            await _validate(write, new, live, (None, None), error)
    if live is not None and definition.generation and write.ctx.target.subresource != "status":
        await write.offload(_count_change, write, (new, live.tree), (hub_new, hub_old))
    await _validate(write, new, live, (hub_new, hub_old))
    if write.reviewers is not None:
        await write.reviewers.validate(new, live.tree if live else None, write.offload, (hub_new, hub_old))
    stored = new
    if version != definition.stored_as and hub_new is not None:
        stored = hub_new
        if definition.hub != definition.stored_as:
            stored = await write.convert(await write.offload(copy_tree, hub_new), definition.hub, definition.stored_as)
    through_hub = hub_new is not None
    if not write.size:
        return ready(resource, (stored, new), version, live, through_hub=through_hub)
    return await write.offload(partial(ready, through_hub=through_hub), resource, (stored, new), version, live)


async def _in_hub(write: WriteRequest, new: Tree, live: LiveObject | None) -> tuple[Tree, Tree | None]:
    """The new and the live object in the hub version; fields a spoke can't represent come from the live object."""
    resource, version, hub = write.resource, write.version, write.resource.definition.hub
    converter = resource.served.converter
    if version == hub:
        return new, None if live is None else live.tree
    hub_old = None
    if live is not None and version == resource.definition.stored_as:
        hub_old = await resource.convert_old(live.tree, version, hub, write.size)
    elif live is not None:
        hub_old = await resource.tree(live.entry, hub)  # which may have more fields than the request version
    lent = lend(converter, new) if not write.size else await write.offload(lend, converter, new)
    hub_new = await write.convert(lent, version, hub)
    # the stored version lacks nothing of what is stored: nothing to carry over
    if hub_old is not None and version != resource.definition.stored_as:
        hub_new = await write.offload(converter.carry_over, hub_new, hub_old, version)
    return hub_new, hub_old


def _count_change(write: WriteRequest, seen: tuple[Tree, Tree], hub: tuple[Tree | None, Tree | None]) -> None:
    """Set generation after `prepare`, whose changes count too.

    Compares hub versions if available: a spoke may lack fields.
    """
    new, old = seen
    hub_new, hub_old = hub
    definition = write.resource.definition
    if hub_new is not None and hub_old is not None:
        changed = differ(definition, definition.hub, hub_new, hub_old)
    else:
        changed = differ(definition, write.version, new, old)
    if changed:
        for tree in (new, hub_new):
            if tree is not None:
                tree["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


async def _validate(
    write: WriteRequest,
    new: Tree,
    live: LiveObject | None,
    hub: tuple[Tree | None, Tree | None],
    unreadable: ViewError | None = None,
) -> None:
    """Raise InvalidObject with every error; `unreadable` is why hooks get no typed view of the object."""
    found = _violations(write, new, live) if not write.size else await write.offload(_violations, write, new, live)
    validate = write.resource.served.hooks.validate
    if validate is not None and hub[0] is not None:
        try:
            arguments = hub[0], hub[1], write.ctx
            found += validate(*arguments) if not write.size else await write.hook(validate, *arguments)
        except ViewError as error:
            unreadable = error
    if unreadable is not None:
        found += besides(found, unreadable)
    if found:
        raise InvalidObject(write.resource.definition.group_kind, new["metadata"].get("name", ""), found)


def _violations(write: WriteRequest, new: Tree, live: LiveObject | None) -> list[FieldError]:
    """The errors of metadata and schema validation."""
    definition, metadata = write.resource.definition, new["metadata"]
    found: list[FieldError] = validate_object_meta(
        metadata, namespaced=definition.namespaced, name_rule=definition.name_rule
    )
    if live is not None:
        found += validate_object_meta_update(metadata, live.tree["metadata"])
    return found + write.resource.compiled[write.version].validate(new, live.tree if live and live.whole else None)


def besides(found: list[FieldError], unreadable: ViewError) -> list[FieldError]:
    """The type's errors for fields in which schema validation found none."""
    paths = {error.path for error in found}
    return [error for error in unreadable.errors if error.path not in paths]
