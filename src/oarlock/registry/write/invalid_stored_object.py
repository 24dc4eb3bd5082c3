"""`InvalidStoredObject`: an object that does not fit its type any more, for writes that leave what is wrong as it is.

Of a top-level field that doesn't fit (``spec``), the recipe and its hooks work on what can be read of it, the same
before and after the write; what is stored stays as it is, to the byte. So the object can be labelled, its finalizers
removed and its status written. A write that changes such a field must bring it into shape.
Must not know: the steps of a write. See also: `update`, which tries this when a
write is refused; ``schema.types.partial_view``.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from oarlock.meta.errors import StatusError
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import ConversionError, copy_tree
from oarlock.registry.write.body import fields_of, top_of
from oarlock.registry.write.write_request import LiveObject, WriteRequest, tracked
from oarlock.schema.types.projections import partial_view
from oarlock.schema.types.views import ViewError

__all__ = ["InvalidStoredObject", "invalid_stored_object"]

REASON = "StoredObjectInvalid"
"""The reason of the causes that say what of the stored object is wrong."""

_HEAD = ("apiVersion", "kind", "metadata")
_ABSENT = object()


class InvalidStoredObject(NamedTuple):
    """The `live` object as it is stored and as far as it can be read, and its `errors`.

    `readable.unread` are the top-level fields that don't fit.
    """

    live: LiveObject
    readable: LiveObject
    errors: list[FieldError]

    def shown(self, write: WriteRequest, new: Tree, refused: StatusError | None) -> Tree:
        """`new` with what can be read of the fields that don't fit. Raises `refused` if the write changes any."""
        own, resets = {path[0] for path in write.part.fields}, {path[0] for path in write.part.resets if len(path) == 1}
        for name in self.readable.unread:
            can_change = name in own if own else name not in resets
            changes = new.get(name, _ABSENT) != self.live.tree.get(name, _ABSENT)
            if can_change and changes and refused is not None:
                raise refused
        return self.reset(new)

    def reset(self, new: Tree) -> Tree:
        """`new` with what can be read of the fields that don't fit, whatever was made of them."""
        return fields_of(new, self.readable.tree, self.readable.unread)

    async def tracked(self, write: WriteRequest, new: Tree) -> Tree:
        """`new` with updated managedFields, which are about the fields as they are stored."""
        owned = await tracked(write, self.live.tree, self.restored(new))
        return {**new, "metadata": owned["metadata"]}

    def restored(self, new: Tree) -> Tree:
        """`new` with the fields that don't fit as they are stored."""
        return fields_of(new, self.live.tree, self.readable.unread)

    def blamed(self, error: StatusError) -> StatusError:
        """`error`, which refuses a write, with a cause for each field that is wrong in the stored object already."""
        stored = [
            stored_error
            for stored_error in self.errors
            if any(_is_same(stored_error, refused) for refused in error.errors)
        ]
        if not stored:
            return error
        paths, tops = (dict.fromkeys(found) for found in ((e.path for e in stored), (top_of(e.path) for e in stored)))
        advice = f"set it in the same request, or leave all of {', '.join(tops)} as it is"
        # kubectl shows the causes, and not the message
        why = f"it is so in the stored object, from before its schema changed: {advice}"
        more = [{"reason": REASON, "message": why, "field": error.path} for error in stored]
        already = f"in the stored object {', '.join(paths)} is so already"
        return error.explained(f"{error.message}; {already}: {advice}", more)


def _is_same(stored: FieldError, error: FieldError) -> bool:
    """Whether an error of a write is about the stored value, not another one that is wrong in the same way."""
    same = type(stored.value) is type(error.value) and stored.value == error.value
    return stored == error and stored.path == error.path and same


def invalid_stored_object(write: WriteRequest, live: LiveObject) -> InvalidStoredObject | None:
    """What doesn't fit of the live object, which is in the stored version; None if all of it does."""
    errors = _errors(write, live.tree)
    found = {top_of(error.path) for error in errors}
    # a conversion that fails says nothing of fields
    unread = frozenset(found if "" not in found else live.tree.keys() - {*_HEAD})
    if not errors or unread & {*_HEAD}:
        return None
    readable = _readable(write, live.tree)
    if readable is None:
        return None
    shown = fields_of(live.tree, readable, unread)
    return InvalidStoredObject(live, replace(live, tree=shown, data=b"", unread=unread), errors)


def _errors(write: WriteRequest, tree: Tree) -> list[FieldError]:
    """Why the object can't be read, in its own version and the hub's."""
    definition, served = write.definition, write.resource.served
    errors = write.compiled.type_errors(tree)
    try:
        if not errors and write.version != definition.hub:
            served.conversions.now([copy_tree(tree)], write.version, definition.hub, stored=True)
        elif not errors and served.projection is not None:
            served.projection.view(tree)
    except ViewError as error:
        return list(error.errors)
    except ConversionError as error:
        cause = error.__cause__
        return list(cause.errors) if isinstance(cause, ViewError) else [Invalid("", None, error.why)]
    return errors


def _readable(write: WriteRequest, tree: Tree) -> Tree | None:
    """As much of it as can be read, defaults filled in; None if that is nothing."""
    definition, version = write.definition, write.version

    def read(some: Tree) -> Tree:
        errors = _errors(write, some)
        if errors:
            raise ViewError(definition.group_kind, "", errors)
        return some

    found = partial_view(tree, definition.version(version).schema, read)
    if found is None and version != definition.hub:
        found = _through_hub(write, tree)
    if found is None:
        return None
    found = copy_tree(found)
    write.compiled.prune(found)
    write.compiled.normalize(found)
    write.compiled.default(found)
    default = write.hooks.default.get(version)
    try:
        return found if default is None else default(found, write.ctx)
    except ViewError:
        return None


def _through_hub(write: WriteRequest, tree: Tree) -> Tree | None:
    """An object of the hub's zero values, for one that can't be converted to the hub, in the version of `tree`."""
    definition, served = write.definition, write.resource.served
    projection = served.projection
    hub = served.converter.convert_partially(tree, write.version, definition.hub)
    if hub is None or projection is None:
        return None

    def read(some: Tree) -> Tree:
        projection.view(some)
        return some

    found = partial_view(hub, definition.version(definition.hub).schema, read)
    try:
        made = found and served.conversions.now([found], definition.hub, write.version, stored=True)
    except StatusError:
        return None
    return None if not made or _errors(write, made[0]) else made[0]
