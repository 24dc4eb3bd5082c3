"""`TypedPlugin`: an `Admission` class that a user wrote, as a member of the admission chain.

The user's code sees typed objects in the version it was written for: trees are converted to it, and what it changed is
converted back. See also: `plugin`, the class; `chain`, which calls this.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind
from oarlock.policy.admission.chain import plugin_name
from oarlock.policy.admission.plugin import Admission, AdmissionOperation, Review
from oarlock.registry.conversions import copy_tree, copy_unless_pure
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.hooks.object_hooks import OldObjects
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub
from oarlock.schema.definition import ResourceDefinition, VersionDefinition
from oarlock.schema.types.folding import Session, fold
from oarlock.schema.types.projections import Open, Projection, partial_view, projection_of
from oarlock.schema.types.resources import Resource, declared
from oarlock.schema.types.views import view

NAMELESS = "Unknown"
"""Kubernetes' word in a refusal for an object that has no name yet."""

_RAISES = "it raises what it refuses with"


class TypedPlugin:
    """A user's plugin, with what is computed once about it."""

    __slots__ = (
        "_every_subresource",
        "_group",
        "_kind",
        "_mutate",
        "_old_objects",
        "_plugin",
        "_projection",
        "_subresources",
        "_validate",
        "_validates",
        "_version",
        "mutates",
        "name",
        "only_kinds",
        "only_operations",
    )

    def __init__(self, plugin: Admission[Any]) -> None:
        cls = type(plugin)
        if cls.__resource__ is None:
            raise TypeError(f"{cls.__qualname__} doesn't say which resource it is for")
        self._plugin = plugin
        self.name = plugin_name(plugin)
        self._mutate = HookCaller(f"{cls.__qualname__}.mutate", NAMELESS)
        self._validate = HookCaller(f"{cls.__qualname__}.validate", NAMELESS)
        self.mutates = cls.mutate is not Admission.mutate
        self._validates = cls.validate is not Admission.validate
        self.only_operations = cls.__operations__ if self.mutates or self._validates else ()
        self._subresources = cls.__subresource_names__
        self._every_subresource = "*" in cls.__subresource_names__
        self._group = self._version = self._kind = ""  # of every kind
        if cls.__resource__ is Resource:
            self._projection: Projection = _MetadataProjection()
        else:
            declaration = declared(cls.__resource__)
            self._group, self._version, self._kind = declaration.group, declaration.version, declaration.kind
            self._projection = projection_of(cls.__resource__)
        self._old_objects = OldObjects(self._projection)
        self.only_kinds = (self._kind,) if self._kind else None

    @property
    def waits(self) -> bool:
        return self._plugin.waits

    def handles(self, request: AdmissionRequest) -> bool:
        if self._kind:
            body_kind = request.body_kind
            if body_kind is not None:
                if body_kind != GroupVersionKind(self._group, self._version, self._kind):
                    return False
            else:
                definition = request.served.definition
                if definition.names.kind != self._kind or (
                    definition.group != self._group and self._name_in(definition) not in map(_name, definition.versions)
                ):
                    return False
        return self._every_subresource or request.ctx.target.subresource in self._subresources

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        if not self.mutates:
            return new
        ctx, versions = request.ctx, self._versions(request, offload)
        if new is None:
            review = await self._review(versions, None, old, None)
            self._mutate.in_place(await self._mutate.wait(ctx, None, self._plugin.mutate, review))
            return None
        shown = await versions.of_plugin(new)
        opened = await offload(self._projection.open, shown)
        review = await self._review(versions, opened.object, old, None)
        self._mutate.in_place(await self._mutate.wait(ctx, new, self._plugin.mutate, review))
        changed = await offload(self._mutate.result, opened)
        if changed is shown:
            return new
        return changed if shown is new else await versions.folded(new, shown, changed)

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        if not self._validates:
            return
        versions = self._versions(request, offload)
        model = None
        if new is not None:
            shown = new if versions.same else await versions.of_plugin(new, hub.new)
            model = await offload(self._projection.view, shown)
        review = await self._review(versions, model, old, hub.old)
        hook: Any = self._plugin.validate
        returned = await self._validate.wait(request.ctx, new, hook, review)
        if returned is not None:
            self._validate.nothing(returned, _RAISES)

    def _versions(self, request: AdmissionRequest, offload: Offload) -> _Versions:
        version = self._name_in(request.served.definition) if self._version else ""
        same = not version or version == request.ctx.target.version or request.body_kind is not None
        return _Versions(request, version, offload, same)

    def _name_in(self, definition: ResourceDefinition) -> str:
        return definition.version_in(self._group, self._version)

    async def _review(self, versions: _Versions, model: Any, old: Tree | None, hub_old: Tree | None) -> Review[Any]:
        old_model = None
        if old is not None:
            tree = await versions.of_plugin_if_possible(old, hub_old)
            old_model = await versions.offload(self._old_objects.view, tree)
        request = versions.request
        return Review(cast(AdmissionOperation, request.operation), request.ctx, model, old_model)


def _name(version: VersionDefinition) -> str:
    return version.name


class _Versions(NamedTuple):
    """Converts the trees of one request to the version that a plugin works in, and back; `same` if that is one."""

    request: AdmissionRequest
    version: str
    offload: Offload
    same: bool

    async def of_plugin(self, tree: Tree, hub: Tree | None = None) -> Tree:
        """The tree in the plugin's version: itself if that is the request's, `hub` if it is the hub's."""
        if self.same:
            return tree
        served = self.request.served
        if hub is not None and self.version == served.definition.hub:
            return hub
        passed = await self.offload(copy_unless_pure, served.converter, tree)
        (converted,) = await self._convert([passed], self.request.ctx.target.version, self.version)
        return converted

    async def of_plugin_if_possible(self, tree: Tree, hub: Tree | None) -> Tree:
        """The same for the old object, which may be one that can't be converted any more."""
        if self.same:
            return tree
        served, version = self.request.served, self.request.ctx.target.version
        if hub is not None and self.version == served.definition.hub:
            return hub
        if served.converter.threadsafe:
            converted = await self.offload(served.conversions.old_now, tree, version, self.version)
            if converted is not None:
                return converted
        return await served.conversions.old(tree, version, self.version)

    async def folded(self, new: Tree, before: Tree, after: Tree) -> Tree:
        """`new` with what the plugin changed; only the difference is converted back.

        Fields that the plugin's version can't represent stay as they are in the request.
        """
        definition, version = self.request.served.definition, self.request.ctx.target.version
        copies = [await self.offload(copy_tree, before), await self.offload(copy_tree, after)]
        before, after = await self._convert(copies, self.version, version)
        tree: Tree = await self.offload(fold, new, before, after, definition.version(version).schema)
        return tree

    async def _convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        served = self.request.served
        if served.converter.threadsafe:
            converted = await self.offload(served.conversions.now, trees, from_version, to_version)
            if converted is not None:
                return converted
        return await served.convert(trees, from_version, to_version)


class _MetadataProjection:
    """A view of an object of any kind: its metadata is typed, the rest is left as it is."""

    def __init__(self) -> None:
        self.view: Callable[[Tree], Resource] = partial(view, cls=Resource)

    def partial_view(self, tree: Tree) -> Resource | None:
        return partial_view(tree, {}, self.view)

    def open(self, tree: Tree) -> Open:
        return Session(tree, Resource)

    def wire(self, model: Any) -> Tree:
        raise TypeError("a plugin changes the object it is given")
