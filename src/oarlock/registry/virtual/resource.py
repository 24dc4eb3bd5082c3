"""A resource whose objects come from a user's own storage, through `VirtualMethods`.

Defaulting, validation, admission, preconditions, dry runs, managedFields, selectors, sorting and paging are the
server's here too; a user's method only stores and fetches. A list without a resourceVersion of its own gets a counter
of this process, which grows with every write through this server.
Must not know: URLs. See also: `virtual.object_storage`, for writes; `virtual`, where users write the methods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from oarlock.meta.context import Context
from oarlock.meta.errors import (
    Expired,
    MethodNotAllowed,
    NotFound,
)
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import NamespacedName
from oarlock.meta.options import ListOptions
from oarlock.registry.read.results import EncodedItem, Item, Listing, TreeItem
from oarlock.registry.read.selection import SelectedKind
from oarlock.registry.resource_base import ResourceBase
from oarlock.registry.served import Served
from oarlock.registry.settings import Settings
from oarlock.registry.virtual.pages import Page, own_token, place_token, read_token
from oarlock.registry.virtual.selection import Choice, choose, chosen
from oarlock.registry.virtual.watch import follow

__all__ = ["VirtualResource"]


T = TypeVar("T")


class VirtualResource(ResourceBase):
    """One virtual resource."""

    def __init__(self, served: Served, settings: Settings) -> None:
        if served.virtual is None:
            raise ValueError("a VirtualResource is made of a Served with virtual methods")
        super().__init__(served, settings)
        self.methods = served.virtual
        self._writes = 1
        self._enders: set[Callable[[], None]] = set()

    async def get(self, ctx: Context, version: str, resource_version: str = "") -> Item:
        """The object, whatever `resource_version` is asked for. Raises NotFound, MethodNotAllowed."""
        if self.methods.get is None:
            raise MethodNotAllowed(self.definition.group_resource, "get")
        return TreeItem(await self.shown(await self.live(ctx), version))

    async def list_items(self, ctx: Context, version: str, options: ListOptions) -> Listing:
        """The selected objects; sorted by namespace and name, and paged, unless the user's `list` pages by itself.

        The server's pages start after the last key of the page before.
        """
        if self.methods.list is None:
            raise MethodNotAllowed(self.definition.group_resource, "list")
        choice = await self._choice(version, options)
        after = read_token(options.continue_token) if options.continue_token else None
        page = await self._page(ctx, options, after)
        trees = await chosen(map(self.complete, page.items), lambda tree: choice.metadata(tree["metadata"]))
        if page.continue_token or isinstance(after, str):
            return await self._own_page(page, trees, version, choice)
        if isinstance(after, tuple):
            trees = [tree for tree in trees if _place(tree) > after]
        trees.sort(key=_place)
        if choice.content is not None:
            trees = await chosen(await self._all_shown(trees, version), choice.content)
        rest = max(0, len(trees) - options.limit) if options.limit > 0 else 0
        shown = trees[: options.limit] if rest else trees
        token = place_token(_place(shown[-1])) if rest else ""
        if choice.content is None:
            shown = await self._all_shown(shown, version)
        return Listing(
            version, [_encoded(shown)], self._revision(page), token, rest if rest and choice.everything else None
        )

    async def _own_page(self, page: Page[Tree], trees: list[Tree], version: str, choice: Choice) -> Listing:
        """A page of the user's that isn't the last; selectors leave fewer objects on it."""
        shown = await self._all_shown(trees, version)
        if choice.content is not None:
            shown = await chosen(shown, choice.content)
        remaining = page.remaining if choice.everything else None
        return Listing(version, [_encoded(shown)], self._revision(page), own_token(page.continue_token), remaining)

    async def _page(self, ctx: Context, options: ListOptions, after: NamespacedName | str | None) -> Page[Tree]:
        """The result of the user's `list`: the requested page if there is one, else everything."""
        own = after if isinstance(after, str) else ""
        if options.limit > 0 and not isinstance(after, tuple):
            return await self._listed(ctx, replace(options, continue_token=own))
        page = first = await self._listed(ctx, replace(options, limit=0, continue_token=own))
        items = list(first.items)
        while page.continue_token:
            page = await self._listed(ctx, replace(options, limit=0, continue_token=page.continue_token))
            items += page.items
        return Page(items, first.resource_version)

    async def _listed(self, ctx: Context, options: ListOptions) -> Page[Tree]:
        if options.continue_token and "list" not in self.methods.takes_options:
            raise Expired("the continue token is of a server that paged otherwise: start over without it")
        assert self.methods.list is not None
        page: Page[Tree] = await self.methods.list(ctx.target.namespace, ctx, options)
        return page

    def _revision(self, page: Page[Tree]) -> str:
        return page.resource_version or str(self._writes)

    async def everything(self, ctx: Context, version: str) -> tuple[list[Tree], str]:
        """All objects in `version`, sorted, and their resourceVersion; empty when the user's list has none."""
        page = await self._page(ctx, ListOptions(), None)
        trees = sorted(map(self.complete, page.items), key=_place)
        return await self._all_shown(trees, version), page.resource_version

    async def watch(self, ctx: Context, version: str, options: ListOptions) -> AsyncIterator[tuple[str, Tree]]:
        """The selected events of a watch in `version`. Raises MethodNotAllowed, and BadRequest for a selector."""
        if self.methods.watch is None:
            raise MethodNotAllowed(self.definition.group_resource, "watch")
        return follow(self, ctx, version, options, await self._choice(version, options))

    async def knows_when_all_was_told(self, ctx: Context, version: str) -> bool:
        """Whether a watch can mark the end of its initial events.

        For that the list has a resourceVersion, and watch can begin there.
        """
        if self.methods.list is None or "watch" not in self.methods.takes_options:
            return False
        return bool((await self.everything(ctx, version))[1])

    def on_end(self, end: Callable[[], None]) -> Callable[[], None]:
        """Call `end` when this resource is withdrawn; returns a function that cancels this."""
        self._enders.add(end)
        return lambda: self._enders.discard(end)

    def end_watches(self) -> None:
        for end in list(self._enders):
            end()

    def wrote(self) -> None:
        """Count a write."""
        self._writes += 1

    async def live(self, ctx: Context) -> Tree:
        """The object in the URL, in the hub version. Raises NotFound, and what the user's `get` raises."""
        get: Callable[[str, str, Context], Awaitable[Tree | None]] | None = self.methods.get
        tree = await get(ctx.target.namespace, ctx.target.name, ctx) if get is not None else None
        if tree is None:
            raise NotFound(self.definition.group_resource, ctx.target.name)
        self.complete(tree)["metadata"].setdefault("name", ctx.target.name)
        return tree

    async def taken(self, ctx: Context, new: Tree) -> bool:
        """Whether an object of that name exists; False when there is no `get`."""
        if self.methods.get is None:
            return False
        try:
            return await self.methods.get(ctx.target.namespace, new["metadata"]["name"], ctx) is not None
        except NotFound:
            return False

    def complete(self, tree: Tree) -> Tree:
        """The user's tree, completed with the fields every object of the hub version has."""
        tree["apiVersion"] = self.definition.api_version(self.definition.hub)
        tree["kind"] = self.definition.names.kind
        tree.setdefault("metadata", {})
        return tree

    async def shown(self, tree: Tree, version: str) -> Tree:
        """A tree of the hub version in `version`; it must not be used afterwards."""
        return await self.convert(tree, self.definition.hub, version)

    async def _all_shown(self, trees: list[Tree], version: str) -> list[Tree]:
        return await self.served.convert(trees, self.definition.hub, version) if trees else trees

    async def _choice(self, version: str, options: ListOptions) -> Choice:
        kind = SelectedKind(namespaced=self.definition.namespaced)
        return await choose(options, self.definition.version(version).selectable, self.compiled[version], kind)


def _encoded(trees: list[Tree]) -> list[EncodedItem]:
    return [EncodedItem.of(tree) for tree in trees]


def _place(tree: Tree) -> NamespacedName:
    metadata = tree["metadata"]
    return metadata.get("namespace", ""), metadata.get("name", "")
