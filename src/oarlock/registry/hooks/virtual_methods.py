"""Adapts the typed methods of a `VirtualCollection` to `VirtualMethods`, which work on trees.

For a declared class, managedFields are one text (`ObjectMeta.field_owners`), so that users' storage can keep it as it
is; a foreign type sees ``managedFields`` and keeps them if it can.
Must not know: verbs without a method; `served` derives those. See also: `declare`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

from oarlock.meta.context import Context
from oarlock.meta.json_trees import Tree
from oarlock.meta.options import ListOptions, WatchOptions
from oarlock.registry.hooks.field_owners import for_the_user, from_the_user
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.hooks.virtual_collection import VERBS, VirtualCollection
from oarlock.registry.served import VirtualMethods
from oarlock.registry.virtual.pages import Page
from oarlock.registry.workers import aside, is_wide
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.projections import Open, Projection

__all__ = ["virtual_methods"]

_EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")


def virtual_methods(
    collection: VirtualCollection[Any], projection: Projection, *, namespaced: bool, nameless: bool = False
) -> VirtualMethods:
    """The collection's methods, on trees in the hub version."""
    adapter = _Adapter(collection, projection, namespaced, nameless)
    have = {verb: getattr(adapter, verb) for verb in VERBS if hasattr(collection, verb)}
    return VirtualMethods(**have, takes_dry_run=adapter.takes_dry_run, takes_options=adapter.takes_options)


class _Adapter:
    def __init__(self, collection: Any, projection: Projection, namespaced: bool, nameless: bool) -> None:
        self._collection = collection
        self._projection = projection
        self._nameless = nameless
        self._namespaced = namespaced
        self._foreign = isinstance(type(collection).__resource__, Foreign)
        name = type(collection).__qualname__
        self._code = {verb: HookCaller(f"{name}.{verb}") for verb in VERBS}
        self.takes_dry_run = self._taking("dry_run")
        self.takes_options = self._taking("options")

    def _taking(self, parameter: str) -> frozenset[str]:
        """The names of the methods that have this parameter."""
        have = {verb: getattr(self._collection, verb, None) for verb in VERBS}
        return frozenset(verb for verb, method in have.items() if method and parameter in _parameters(method))

    def _dry(self, verb: str, dry_run: bool) -> dict[str, Any]:
        return {"dry_run": dry_run} if verb in self.takes_dry_run else {}

    def _wire(self, verb: str, model: Any, namespace: str) -> Tree:
        try:
            tree = self._projection.wire(model)
        except TypeError as error:
            raise TypeError(f"{self._code[verb].name}: {error}") from error
        metadata = tree.setdefault("metadata", {})
        if self._namespaced and namespace and not self._nameless:
            metadata.setdefault("namespace", namespace)
        return self._read(tree)

    def _read(self, tree: Tree) -> Tree:
        """The tree of an object from users' storage, with its managedFields."""
        return tree if self._foreign else from_the_user(tree)

    def _open(self, new: Tree) -> Open:
        """The object to pass to users' storage."""
        return self._projection.open(new if self._foreign else for_the_user(new))

    def _result(self, verb: str, opened: Open, made: Any, ctx: Context) -> Tree:
        if made is opened.object:
            return self._read(self._code[verb].result(opened))
        return self._wire(verb, made, ctx.target.namespace)

    async def get(self, namespace: str, name: str, ctx: Context) -> Tree | None:
        found = await self._code["get"].wait(ctx, None, self._collection.get, name, ctx)
        return None if found is None else self._wire("get", found, namespace)

    def _options(self, verb: str, options: Any) -> dict[str, Any]:
        return {"options": options} if verb in self.takes_options else {}

    async def list(self, namespace: str, ctx: Context, options: ListOptions) -> Page[Tree]:
        own, code = self._collection.list, self._code["list"]
        found: Any = await code.wait(ctx, None, own, ctx, **self._options("list", options))
        if isinstance(found, Page):
            items = [self._wire("list", model, namespace) for model in found.items]
            return replace(found, items=items)
        version = ""
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], str):
            found, version = found
        if not isinstance(found, Iterable):
            raise TypeError(
                f"{code.name} returned {found!r:.100}: it returns objects, a Page, or objects and a version"
            )
        return Page([self._wire("list", model, namespace) for model in found], version)

    async def create(self, new: Tree, ctx: Context, dry_run: bool) -> Tree:
        opened = await aside(self._open, new) if is_wide(new) else self._open(new)
        create, code = self._collection.create, self._code["create"]
        made = await code.wait(ctx, new, create, opened.object, ctx, **self._dry("create", dry_run))
        if is_wide(made):
            return await aside(self._result, "create", opened, made, ctx)
        return self._result("create", opened, made, ctx)

    async def update(self, new: Tree, expected_version: str, ctx: Context, dry_run: bool) -> Tree:
        opened = self._open(new)
        update, code = self._collection.update, self._code["update"]
        made = await code.wait(ctx, new, update, opened.object, expected_version, ctx, **self._dry("update", dry_run))
        return self._result("update", opened, made, ctx)

    async def delete(self, namespace: str, name: str, ctx: Context, dry_run: bool) -> Tree | None:
        delete, code = self._collection.delete, self._code["delete"]
        deleted = await code.wait(ctx, None, delete, name, ctx, **self._dry("delete", dry_run))
        return None if deleted is None else self._wire("delete", deleted, namespace)

    async def watch(self, namespace: str, ctx: Context, options: WatchOptions) -> AsyncIterator[tuple[str, Tree]]:
        async for kind, model in self._collection.watch(ctx, **self._options("watch", options)):
            if kind == "BOOKMARK" and isinstance(model, str):
                yield kind, {"metadata": {"resourceVersion": model}}
            elif kind in _EVENTS:
                yield kind, self._wire("watch", model, namespace)
            else:
                name = self._code["watch"].name
                raise TypeError(f"{name} yielded {kind!r:.100}: an event is ADDED, MODIFIED, DELETED or BOOKMARK")


def _parameters(method: Any) -> Any:
    return inspect.signature(method).parameters
