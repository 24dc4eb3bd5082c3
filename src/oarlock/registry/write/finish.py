"""The common second half of CREATE and UPDATE: from the normalized object to the one that is kept.

The order is always: hub version → `prepare` → metadata and schema validation of the request version → `validate` →
validating admission → what is taken for the final object.
Must not know: how the object was made, where it is kept. See also: `create`, `update`.
"""

from __future__ import annotations

from oarlock.meta.errors import InvalidObject
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversion.converter import ConversionError, copy_tree, copy_unless_pure
from oarlock.registry.workers import on_the_loop
from oarlock.registry.write.metadata import differ
from oarlock.registry.write.replicas import replica_errors
from oarlock.registry.write.tops import fields_of, top_of
from oarlock.registry.write.write_request import CheckedObject, LiveObject, WriteRequest
from oarlock.schema.types.views import ViewError
from oarlock.schema.validation.objectmeta import validate_object_meta, validate_object_meta_update

__all__ = ["finish"]


async def finish(write: WriteRequest, new: Tree, live: LiveObject | None) -> CheckedObject:
    """Run hooks, validation and validating admission on `new`, which is in the request version.

    Raises InvalidObject with every error, and what a conversion refuses with.
    """
    definition, hooks = write.definition, write.hooks
    hub_new = hub_old = None
    if hooks.prepare is not None or hooks.validate is not None or write.version != definition.stored_as:
        try:
            hub_new, hub_old = await _in_hub(write, new, live)
            if hooks.prepare is not None:
                hub_new = await write.offload(_prepare, write, hub_new, hub_old)
                if live is not None and live.unread and write.version == definition.hub:
                    hub_new = fields_of(hub_new, live.tree, live.unread)
                new = hub_new
                if write.version != definition.hub:
                    new = await write.convert(await write.offload(copy_tree, hub_new), definition.hub, write.version)
        except (ViewError, ConversionError) as error:
            await write.offload(_refuse, write, new, live, error)
    if write.offload_bytes:
        await write.offload(_check, write, new, live, hub_new, hub_old)
    else:
        _check(write, new, live, hub_new, hub_old)
    if write.reviewers is not None:
        old = None if live is None else live.tree
        await write.reviewers.validate(new, old, write.offload, (hub_new, hub_old))
        if write.reviewers.reserves:
            await write.reviewers.reserve(new, old, write.claims)
    return CheckedObject(new, hub_new)


async def _in_hub(write: WriteRequest, new: Tree, live: LiveObject | None) -> tuple[Tree, Tree | None]:
    """The new and the live object in the hub version; fields a spoke can't represent come from the live object."""
    version, definition, converter = write.version, write.definition, write.resource.served.converter
    if version == definition.hub:
        return new, None if live is None else live.tree
    hub_old = None if live is None else await write.object_storage.live_hub(write, live)
    copy = (
        copy_unless_pure(converter, new)
        if not write.offload_bytes
        else await write.offload(copy_unless_pure, converter, new)
    )
    hub_new = await write.convert(copy, version, definition.hub)
    # the stored version lacks nothing of what is stored: nothing to carry over
    if hub_old is not None and version != definition.stored_as:
        hub_new = await write.offload(converter.carry_over, hub_new, hub_old, version)
    return hub_new, hub_old


def _prepare(write: WriteRequest, new: Tree, old: Tree | None) -> Tree:
    """Run the resource's `prepare`, in the hub version."""
    prepare = write.hooks.prepare
    if prepare is None:
        return new
    return prepare(new, old, write.ctx) if write.hooks.threadsafe else on_the_loop(prepare, new, old, write.ctx)


def _check(write: WriteRequest, new: Tree, live: LiveObject | None, hub_new: Tree | None, hub_old: Tree | None) -> None:
    """Set generation, and raise InvalidObject with the errors of schema, metadata and the `validate` hook."""
    if live is not None and write.definition.generation and write.part.counts:
        _count_change(write, new, live, hub_new, hub_old)
    found = _violations(write, new, live)
    validate = write.hooks.validate
    if validate is not None and hub_new is not None:
        try:
            if write.hooks.threadsafe:
                found += validate(hub_new, hub_old, write.ctx)
            else:
                found += on_the_loop(validate, hub_new, hub_old, write.ctx)
        except ViewError as error:
            found += _not_already_reported(found, error)
    if live is not None and live.unread:
        found = _about_the_rest(write, found, new, live)
    if found:
        raise InvalidObject(write.definition.hub_kind, new["metadata"].get("name", ""), found)


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
