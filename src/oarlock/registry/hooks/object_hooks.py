"""Wraps users' typed hooks so that they work on trees: `prepare`, `validate`, and methods of `@subresource`.

A typed view is made, the hook runs, and its changes are written back to the tree. A stored object that doesn't fit its
class any more is seen as far as it can be read (`OldObjects`).
Must not know: when hooks run. See also: `declare`, ``write.recipe``.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Protocol

from oarlock.client.informers.remote_objects import ObjectLog
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import Conversions, Converter, name_of
from oarlock.registry.hooks.collection import (
    AnyCollection,
    StoredCollection,
    VirtualCollection,
    for_the_user,
    from_the_user,
)
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.hooks.subresource import DeclaredSubresource, check_fields
from oarlock.registry.served import AnyHook, ConnectHook, Hooks, StreamHook, SubresourceHook
from oarlock.registry.workers import on_the_loop
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.declaring import HookError
from oarlock.schema.types.projections import Projection, projection_of
from oarlock.schema.types.resources import declared, version_name
from oarlock.schema.types.views import ViewError, wire

log = logging.getLogger("oarlock.registry")

SHOWN = 5
"""The most mistakes that are logged for one object."""


class OldObjects:
    """Makes views of stored objects in one version, with `projection`."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._object_log = ObjectLog(log)

    def view(self, tree: Tree | None) -> Any | None:
        """The object, as far as it can be read. None if `tree` is None or nothing can be read."""
        if tree is None:
            return None
        try:
            return self._projection.view(tree)
        except ViewError as error:
            why = f"the stored object doesn't fit its class any more, hooks see what can be read: {reasons(error)}"
            self._object_log.warn(name_of(tree), tree["metadata"].get("resourceVersion"), why)
            return self._projection.partial_view(tree)


def reasons(error: ViewError) -> str:
    """The first few field errors, as one text."""
    texts = [mistake.message for mistake in error.errors[:SHOWN]]
    if len(error.errors) > SHOWN:
        texts.append(f"and {len(error.errors) - SHOWN} more")
    return "; ".join(texts)


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
    run = _caller(collection, code)

    def prepare(new: Tree, old: Tree | None, ctx: Context) -> Tree:
        session = projection.open(new)
        code.in_place(run(ctx, new, hook, session.object, before.view(old), ctx))
        made = code.result(session)
        code.same_object(new, made)
        return made

    return prepare


def _caller(collection: Any, code: HookCaller) -> Callable[..., Any]:
    """`HookCaller.run`, on the event loop: users' code runs there, whatever thread the object is worked on in."""
    return code.run if getattr(collection, "__threadsafe__", False) else partial(on_the_loop, code.run)


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
    run = _caller(collection, code)

    def validate(new: Tree, old: Tree | None, ctx: Context) -> list[FieldError]:
        old_view = None if old is None else before.view(old)
        found: list[FieldError] = run(ctx, new, code.errors, hook, projection.view(new), old_view, ctx)
        return found

    return validate


class HasSubresources(Protocol):
    """An object whose class has methods that serve subresources, as `find_subresources` finds them."""

    __subresources__: ClassVar[tuple[DeclaredSubresource, ...]]


def with_subresources(definition: ResourceDefinition, collection: AnyCollection) -> ResourceDefinition:
    """The definition with the subresources of `collection` in their versions. Raises HookError."""
    found: tuple[DeclaredSubresource, ...] = type(collection).__subresources__
    names = {version.name for version in definition.versions}
    for hook in found:
        unknown = set(hook.mark.versions) - names
        if unknown:
            raise HookError(
                f"{type(collection).__name__}.{hook.attribute}",
                f"there is no version {unknown.pop()!r}",
                "there are " + ", ".join(sorted(names)),
            )
    parts = type(collection).__parts__
    for attribute, part in parts.items():
        subject = f"{type(collection).__name__}.{attribute}"
        unknown = set(part.versions) - names
        if unknown:
            raise HookError(subject, f"there is no version {unknown.pop()!r}", "there are " + ", ".join(sorted(names)))
        check_fields(subject, part, definition)
    versions = tuple(
        replace(
            version,
            subresources=(
                *(
                    hook.definition(definition.gvk(version.name))
                    for hook in found
                    if version.name in (hook.mark.versions or names)
                ),
                *(
                    part.definition(definition.gvk(version.name))
                    for part in parts.values()
                    if version.name in (part.versions or names)
                ),
            ),
        )
        for version in definition.versions
    )
    return replace(definition, versions=versions)


def subresource_hooks(
    collection: HasSubresources, definition: ResourceDefinition, converter: Converter
) -> dict[str, AnyHook]:
    """The hooks of `collection`'s subresources, by name."""
    hooks: dict[str, AnyHook] = {}
    conversions = Conversions(definition, converter)
    for found in type(collection).__subresources__:
        mark, giving = found.mark, _Giving(found, conversions, isinstance(collection, VirtualCollection))
        method = getattr(collection, found.attribute)
        if mark.end:
            connect = _connect(method, giving, mark.end)
            hooks[mark.name] = ConnectHook(mark.name, connect, mark.upgrade, mark.numbered, found.arguments)
        elif mark.media_type:
            hooks[mark.name] = StreamHook(mark.name, _stream(method, giving), mark.media_type, found.arguments)
        else:
            about = None if found.body is None else declared(found.body).gvk.group_kind
            code = HookCaller(f"{type(collection).__qualname__}.{found.attribute}", about=about)
            call = _call(method, giving, definition, code)
            hooks[mark.name] = SubresourceHook(mark.name, mark.method, call, found.arguments)
    return hooks


class _Giving:
    """Makes the arguments of a method, by the names of its parameters."""

    def __init__(self, found: DeclaredSubresource, conversions: Conversions, virtual: bool) -> None:
        self.found = found
        self.virtual = virtual
        self.conversions = conversions
        self._parent = OldObjects(projection_of(found.parent)) if found.parent is not None else None

    async def arguments(self, ctx: Context, parent: Tree, given: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments but the body."""
        found = self.found
        arguments = dict(given)
        if "name" in found.parameters:
            arguments["name"] = ctx.target.name
        if "ctx" in found.parameters:
            arguments["ctx"] = ctx
        if "parent" in found.parameters:
            arguments["parent"] = parent
            if self._parent is not None:
                declaration = found.parent.declaration if isinstance(found.parent, Foreign) else declared(found.parent)
                wanted = version_name(declaration, ctx.target.group)
                made = await self.conversions.old(parent, ctx.target.version, wanted)
                arguments["parent"] = self._parent.view(for_the_user(made) if self.virtual else made)
        return arguments


def _call(method: Any, giving: _Giving, definition: ResourceDefinition, code: HookCaller) -> Any:
    found, conversions = giving.found, giving.conversions
    body_lens = projection_of(found.body) if found.body is not None else None
    known = {version.name for version in definition.versions}

    async def call(ctx: Context, parent: Tree, body: Tree | None, given: Mapping[str, Any] | None = None) -> Any:
        arguments = await giving.arguments(ctx, parent, given or {})
        opened = None
        if body_lens is not None:
            opened = body_lens.open(body or {})
            arguments["body"] = opened.object
        answer = await code.wait(ctx, parent, method, **arguments)
        if answer is None:
            return None
        if opened is not None and answer is opened.object:
            return code.result(opened)
        tree = from_the_user(wire(answer))
        declaration = declared(type(answer))
        version = version_name(declaration, definition.group)
        if declaration.kind == definition.names.kind and version in known:
            # an answer of the parent's own kind is in the request version
            (tree,) = await conversions.convert([tree], version, ctx.target.version)
        return tree

    return call


def _connect(method: Any, giving: _Giving, parameter: str) -> Any:
    async def connect(ctx: Context, parent: Tree, end: Any, given: Mapping[str, Any]) -> int | None:
        arguments = await giving.arguments(ctx, parent, given)
        arguments[parameter] = end
        code = await method(**arguments)
        if code is not None and (not isinstance(code, int) or isinstance(code, bool)):
            raise TypeError(f"{giving.found.mark.name} returned {code!r:.100}: it returns an exit code, or nothing")
        return None if code is None else int(code)

    return connect


def _stream(method: Any, giving: _Giving) -> Any:
    async def stream(ctx: Context, parent: Tree, given: Mapping[str, Any]) -> AsyncIterator[bytes]:
        arguments = await giving.arguments(ctx, parent, given)
        pieces = method(**arguments)
        try:
            async for piece in pieces:
                yield piece
        finally:
            await pieces.aclose()  # so that the generator's `finally` runs now, not when it is collected

    return stream
