"""Wraps the typed hooks `prepare` and `validate`, of a collection and of its parts, so that they work on trees.

A typed view is made, the hook runs, and its changes are written back to the tree.
Must not know: when hooks run. See also: `declare`, `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.hooks.old_objects import OldObjects
from oarlock.registry.hooks.virtual_collection import VirtualCollection
from oarlock.registry.served import Hooks
from oarlock.registry.workers import on_the_loop
from oarlock.schema.types.projections import Projection

__all__ = ["collection_hooks", "part_hooks"]

Prepare = Callable[[Tree, Tree | None, Context], Tree]
MarkDeleted = Callable[[Tree, Context], Tree]
Validate = Callable[[Tree, Tree | None, Context], Iterable[FieldError]]


def collection_hooks(collection: StoredCollection[Any], projection: Projection, hooks: Hooks) -> Hooks:
    """`hooks` with those that the collection overrides."""
    old = OldObjects(projection)
    prepare: Prepare | None = None
    validate: Validate | None = None
    if type(collection).prepare is not StoredCollection.prepare:
        prepare = _prepare(collection, "prepare", projection, old)
    if type(collection).validate is not StoredCollection.validate:
        validate = _validate(collection, "validate", projection, old)
    mark_deleted: MarkDeleted | None = None
    if type(collection).mark_deleted is not StoredCollection.mark_deleted:
        mark_deleted = _mark_deleted(collection, projection)
    return replace(hooks, prepare=prepare, validate=validate, mark_deleted=mark_deleted)


def part_hooks(
    collection: StoredCollection[Any] | VirtualCollection[Any], projection: Projection, hooks: Hooks
) -> dict[str, Hooks]:
    """All hooks of a write to a part, by subresource: `hooks`, those of the object, and then those of the part."""
    old = OldObjects(projection)
    found: dict[str, Hooks] = {}
    for part in type(collection).__parts__.values():
        prepare, validate = hooks.prepare, hooks.validate
        if part.prepare_method:
            prepare = _after(prepare, _prepare(collection, part.prepare_method, projection, old))
        if part.validate_method:
            validate = _and(validate, _validate(collection, part.validate_method, projection, old))
        found[part.name] = replace(hooks, prepare=prepare, validate=validate)
    return found


def _after(first: Prepare | None, second: Prepare) -> Prepare:
    if first is None:
        return second
    return lambda new, old, ctx: second(first(new, old, ctx), old, ctx)


def _and(first: Validate | None, second: Validate) -> Validate:
    if first is None:
        return second
    return lambda new, old, ctx: [*first(new, old, ctx), *second(new, old, ctx)]


def _prepare(collection: Any, method: str, projection: Projection, before: OldObjects) -> Prepare:
    hook: Any = getattr(collection, method)
    code = HookCaller(f"{type(collection).__qualname__}.{method}")
    call = _caller(collection)

    def prepare(new: Tree, old: Tree | None, ctx: Context) -> Tree:
        session = projection.open(new)
        code.in_place(call(code.run, ctx, new, hook, session.object, before.view(old), ctx))
        made = code.result(session)
        code.same_object(new, made)
        return made

    return prepare


def _caller(collection: Any) -> Callable[..., Any]:
    """What calls hooks: users' code runs on the event loop, whatever thread the object is worked on in."""
    return _here if getattr(collection, "__threadsafe__", False) else on_the_loop


def _here(call: Callable[..., Any], /, *arguments: Any) -> Any:
    return call(*arguments)


def _mark_deleted(collection: StoredCollection[Any], projection: Projection) -> MarkDeleted:
    hook: Any = collection.mark_deleted
    code = HookCaller(f"{type(collection).__qualname__}.mark_deleted")

    def mark_deleted(new: Tree, ctx: Context) -> Tree:
        session = projection.open(new)
        code.in_place(on_the_loop(code.run, ctx, new, hook, session.object, ctx))
        made = code.result(session)
        code.same_object(new, made)
        return made

    return mark_deleted


def _validate(collection: Any, method: str, projection: Projection, before: OldObjects) -> Validate:
    hook: Any = getattr(collection, method)
    code = HookCaller(f"{type(collection).__qualname__}.{method}")
    call = _caller(collection)

    def checked(new: Any, old: Any, ctx: Context) -> list[FieldError]:
        try:
            yielded = hook(new, old, ctx)
        except FieldError as error:
            return [error]
        code.not_waiting(yielded)
        return code.errors(yielded)

    def validate(new: Tree, old: Tree | None, ctx: Context) -> list[FieldError]:
        found: list[FieldError] = call(code.run, ctx, new, checked, projection.view(new), before.view(old), ctx)
        return found

    return validate
