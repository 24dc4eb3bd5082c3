"""Users' subresource methods, as definitions and as hooks on trees.

A typed method is wrapped: its arguments become typed views, and its result becomes a tree.
Must not know: requests, beyond their `Context` and the pairs of their query. See also: ``endpoints.verbs.subresource``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol

from oarlock.meta.context import Context
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversion.conversions import Conversions
from oarlock.registry.conversion.converter import Converter
from oarlock.registry.hooks.field_owners import for_the_user, from_the_user
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.hooks.old_objects import OldObjects
from oarlock.registry.hooks.part import check_fields
from oarlock.registry.hooks.subresource import DeclaredSubresource
from oarlock.registry.hooks.virtual_collection import AnyCollection, VirtualCollection
from oarlock.registry.served import AnyHook, ConnectHook, StreamHook, SubresourceHook
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.declaring import HookError
from oarlock.schema.types.projections import projection_of
from oarlock.schema.types.resources import declared, version_name
from oarlock.schema.types.views import wire

__all__ = ["HasSubresources", "subresource_hooks", "with_subresources"]


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
