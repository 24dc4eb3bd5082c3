"""`AdmissionGate`: calls the admission plugins of a server; implements ``registry.served.Gate``.

All plugins mutate, in order; when the object is final, all validate. A plugin sees objects in the version it was
written for: they are converted to it, and what it changed is converted back.
Must not know: authorization, which is passed in as a function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from typing import Any, NamedTuple, cast

from oarlock.meta.context import Context
from oarlock.meta.kinds import GroupVersionKind
from oarlock.policy.admission.plugin import Admission, Operation, Review
from oarlock.registry.conversion import copy_tree, lend
from oarlock.registry.old_objects import OldObjects
from oarlock.registry.served import NOT_AT_HAND, Hub, Served, Tree
from oarlock.registry.users_code import UsersCode
from oarlock.registry.workers import Offload, at_once
from oarlock.schema.folding import Session, fold
from oarlock.schema.projections import Open, Projection, projection_of
from oarlock.schema.resources import Resource, declared
from oarlock.schema.salvage import salvaged
from oarlock.schema.views import view

__all__ = ["AdmissionGate"]

NAMELESS = "Unknown"
"""Kubernetes' word in a refusal for an object that has no name yet."""

May = Callable[[Context, str], Awaitable[None]]


class _PluginHandler:
    """A plugin, with what is computed once about it."""

    __slots__ = (
        "before",
        "group_kind",
        "mutate",
        "mutates",
        "operations",
        "plugin",
        "projection",
        "subresources",
        "validate",
        "validates",
        "version",
    )

    def __init__(self, plugin: Admission[Any]) -> None:
        kind = type(plugin)
        if kind.__resource__ is None:
            raise TypeError(f"{kind.__qualname__} doesn't say which resource it is for")
        self.plugin = plugin
        self.mutate = UsersCode(f"{kind.__qualname__}.mutate", NAMELESS)
        self.validate = UsersCode(f"{kind.__qualname__}.validate", NAMELESS)
        self.mutates = kind.mutate is not Admission.mutate
        self.validates = kind.validate is not Admission.validate
        self.operations = kind.__operations__
        self.subresources = kind.__seen__
        self.group_kind: tuple[str, str] | None = None
        self.version = ""
        if kind.__resource__ is Resource:
            self.projection: Projection = _MetadataProjection()
        else:
            said = declared(kind.__resource__)
            self.group_kind, self.version = (said.group, said.kind), said.version
            self.projection = projection_of(kind.__resource__)
        self.before = OldObjects(self.projection)

    def sees(self, ctx: Context, operation: str, served: Served | None, body: GroupVersionKind | None) -> bool:
        """Whether the plugin handles the request. `body` is the kind under review if it isn't the resource's own."""
        if operation not in self.operations:
            return False
        if ctx.target.subresource not in self.subresources and "*" not in self.subresources:
            return False
        if self.group_kind is None:
            return True
        if body is not None:
            return (*self.group_kind, self.version) == (body.group, body.kind, body.version)
        if served is None:
            return False
        return self.group_kind == (served.definition.group, served.definition.names.kind)


class _MetadataProjection:
    """A view of an object of any kind: its metadata is typed, the rest is left as it is."""

    def view(self, tree: Tree) -> Resource:
        return view(tree, Resource)

    def salvage(self, tree: Tree) -> Resource | None:
        return salvaged(tree, {}, self.view)

    def open(self, tree: Tree) -> Open:
        return Session(tree, Resource)

    def wire(self, model: Any) -> Tree:
        raise TypeError("a plugin changes the object it is given")


class AdmissionGate:
    """Calls `plugins`, in order, for every write of what is `served`; `may` checks the permission for another verb."""

    def __init__(self, plugins: Sequence[Admission[Any]], served: Iterable[Served], may: May | None = None) -> None:
        self._handlers = tuple(_PluginHandler(plugin) for plugin in plugins)
        self._served = {(s.definition.group, s.definition.names.plural): s for s in served}
        self._bodies = {
            (*key, version.name, subresource.name): subresource.kind
            for key, one in self._served.items()
            for version in one.definition.versions
            for subresource in version.subresources
            if subresource.request_schema
        }
        self._may = may
        self._offload: Offload = at_once
        self.waits = any(handler.plugin.waits for handler in self._handlers if handler.mutates or handler.validates)
        self._busy = frozenset(
            operation
            for handler in self._handlers
            if handler.mutates or handler.validates
            for operation in handler.operations
        )

    def idle(self, operation: str) -> bool:
        return operation not in self._busy

    async def may(self, ctx: Context, verb: str) -> None:
        if self._may is not None:
            await self._may(ctx, verb)

    def _about(self, ctx: Context) -> tuple[Served | None, GroupVersionKind | None]:
        """The resource that is written, or the body kind of a user's subresource, which has no conversion."""
        target = ctx.target
        if target.subresource:
            body = self._bodies.get((target.group, target.resource, target.version, target.subresource))
            if body is not None:
                return None, body
        return self._served.get((target.group, target.resource)), None

    def working(self, offload: Offload) -> AdmissionGate:
        made = copy(self)
        made._offload = offload
        return made

    async def mutate(self, ctx: Context, operation: str, new: Tree | None, old: Tree | None) -> Tree | None:
        served, body = self._about(ctx)
        for handler in self._handlers:
            if handler.mutates and handler.sees(ctx, operation, served, body):
                new = await _mutated(handler, _PluginCall(served, ctx, self._offload), (operation, new, old))
        return new

    async def validate(
        self, ctx: Context, operation: str, new: Tree | None, old: Tree | None, hub: Hub = NOT_AT_HAND
    ) -> None:
        served, body = self._about(ctx)
        asked = _PluginCall(served, ctx, self._offload)
        for handler in self._handlers:
            if handler.validates and handler.sees(ctx, operation, served, body):
                seen = None
                if new is not None:
                    seen = await self._offload(handler.projection.view, await _shown(handler, asked, new, hub[0]))
                review = await _review(handler, asked, (operation, seen, old), hub[1])
                hook: Any = handler.plugin.validate
                handler.validate.nothing(await handler.validate.wait(ctx, new, hook, review), _RAISES)


class _PluginCall(NamedTuple):
    """What plugins are called about: a write of an object of `served`. `offload` runs all but their own code."""

    served: Served | None
    ctx: Context
    offload: Offload

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        assert self.served is not None
        if self.served.converter.threadsafe:
            made = await self.offload(self.served.conversions.now, trees, from_version, to_version)
            if made is not None:
                return made
        return await self.served.convert(trees, from_version, to_version)


_RAISES = "it raises what it refuses with"
_What = tuple[str, Any, Tree | None]


async def _mutated(handler: _PluginHandler, asked: _PluginCall, what: _What) -> Tree | None:
    operation, new, old = what
    served, ctx, offload = asked
    if new is None:
        review = await _review(handler, asked, (operation, None, old))
        handler.mutate.in_place(await handler.mutate.wait(ctx, None, handler.plugin.mutate, review))
        return None
    shown = await _shown(handler, asked, new)
    opened = await offload(handler.projection.open, shown)
    review = await _review(handler, asked, (operation, opened.object, old))
    handler.mutate.in_place(await handler.mutate.wait(ctx, new, handler.plugin.mutate, review))
    changed = await offload(handler.mutate.result, opened)
    if changed is shown:
        return cast(Tree, new)
    if shown is new or served is None:
        return changed
    # only the difference is converted back: fields the plugin's version can't represent stay as in the request
    copies = [await offload(copy_tree, shown), await offload(copy_tree, changed)]
    before, after = await asked.convert(copies, handler.version, ctx.target.version)
    schema = served.definition.version(ctx.target.version).schema
    folded: Tree = await offload(fold, new, before, after, schema)
    return folded


async def _shown(handler: _PluginHandler, asked: _PluginCall, tree: Tree, hub: Tree | None = None) -> Tree:
    """The tree in the plugin's version: itself if that is the request's, `hub` if it is the hub's."""
    served, version = asked.served, asked.ctx.target.version
    if served is None or not handler.version or handler.version == version:
        return tree
    if hub is not None and handler.version == served.definition.hub:
        return hub
    lent = await asked.offload(lend, served.converter, tree)
    (made,) = await asked.convert([lent], version, handler.version)
    return made


async def _shown_old(handler: _PluginHandler, asked: _PluginCall, tree: Tree, hub: Tree | None) -> Tree:
    """The same for the old object, which may be one that can't be converted any more."""
    served, version = asked.served, asked.ctx.target.version
    if served is None or not handler.version or handler.version == version:
        return tree
    if hub is not None and handler.version == served.definition.hub:
        return hub
    if served.converter.threadsafe:
        made = await asked.offload(served.conversions.old_now, tree, version, handler.version)
        if made is not None:
            return made
    return await served.conversions.old(tree, version, handler.version)


async def _review(handler: _PluginHandler, asked: _PluginCall, what: _What, hub_old: Tree | None = None) -> Review[Any]:
    operation, new, old = what
    seen = None
    if old is not None:
        seen = await asked.offload(handler.before.seen, await _shown_old(handler, asked, old, hub_old))
    return Review(cast(Operation, operation), asked.ctx, new, seen)
