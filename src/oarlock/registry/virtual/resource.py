"""A resource whose objects come from a user's own storage, through `VirtualMethods`.

Defaulting, validation, admission, preconditions, dry runs, managedFields, selectors, sorting and paging are the
server's here too; a user's method only stores and fetches. A list without a resourceVersion of its own gets a counter
of this process, which grows with every write through this server. A watch is the user's, or lists again and compares.
Must not know: URLs. See also: `virtual.object_storage`, for writes; ``hooks.collection``, for users.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

from oarlock.meta import fields, labels
from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, Expired, MethodNotAllowed, NotFound
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import NamespacedName
from oarlock.meta.options import ListOptions, WatchOptions
from oarlock.registry.read.recipes import EncodedItem, Item, Listing, TreeItem
from oarlock.registry.read.selection import COMPILED_AT_ONCE, SelectedKind, unknown_field
from oarlock.registry.resource_base import ResourceBase
from oarlock.registry.served import Served, Settings, VirtualMethods
from oarlock.registry.virtual.pages import Page, own_token, place_token, read_token
from oarlock.schema.compiled import CompiledVersion
from oarlock.storage.pacing import Pacer

_STEP = 63
"""The clock is looked at after every 64th tree."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A selector: `metadata` tests metadata, `content` the object in the request version; None tests nothing."""

    metadata: Callable[[Tree], bool]
    content: Callable[[Tree], bool] | None
    everything: bool

    def matches(self, shown: Tree) -> bool:
        """Whether an object in the request version is selected."""
        return self.metadata(shown["metadata"]) and (self.content is None or self.content(shown))


async def choose(
    options: ListOptions, selectable: tuple[str, ...], compiled: CompiledVersion, kind: SelectedKind
) -> Choice:
    """Compile the selectors of a list or watch; long ones in a thread.

    Raises BadRequest for a selector that can't be parsed, has too many terms or names a field not in `selectable`.
    """
    if len(options.label_selector) + len(options.field_selector) <= COMPILED_AT_ONCE:
        return _choice(options, selectable, compiled, kind)
    return await asyncio.get_running_loop().run_in_executor(None, _choice, options, selectable, compiled, kind)


def _choice(options: ListOptions, selectable: tuple[str, ...], compiled: CompiledVersion, kind: SelectedKind) -> Choice:
    try:
        wanted = labels.parse(options.label_selector)
        conditions = fields.parse(options.field_selector).conditions()
    except ValueError as error:
        raise BadRequest(str(error)) from None
    places = {path.removeprefix("."): at for at, path in enumerate(selectable)}
    of_metadata: list[tuple[str, fields.FieldCondition]] = []
    of_content: list[tuple[int, fields.FieldCondition]] = []
    for condition in conditions:
        field = condition.field
        if not kind.selects(field, places):
            raise BadRequest(unknown_field(field, places))
        if field in ("metadata.name", "metadata.namespace"):
            of_metadata.append((field.partition(".")[2], condition))
        else:
            of_content.append((places[field], condition))

    def metadata(tree: Tree) -> bool:
        if not wanted.matches(tree.get("labels") or {}):
            return False
        return all(condition.holds(tree.get(field, "")) for field, condition in of_metadata)

    def content(tree: Tree) -> bool:
        values = compiled.selectable_values(tree)
        return all(condition.holds(values[at]) for at, condition in of_content)

    return Choice(metadata, content if of_content else None, wanted.empty and not conditions)


async def chosen(trees: Iterable[Tree], test: Callable[[Tree], bool]) -> list[Tree]:
    """The trees that pass `test`, in slices between which the event loop runs."""
    pacer, found = Pacer(), []
    for number, tree in enumerate(trees):
        if test(tree):
            found.append(tree)
        if not number & _STEP:
            await pacer.turn()
    return found


INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_OBJECTS = ("ADDED", "MODIFIED", "DELETED")
_ANY = ("", "0")


class Source(Protocol):
    """What a watch needs of a virtual resource."""

    methods: VirtualMethods

    async def everything(self, ctx: Context, version: str) -> tuple[list[Tree], str]: ...

    async def shown(self, tree: Tree, version: str) -> Tree: ...

    def complete(self, tree: Tree) -> Tree: ...


async def follow(
    resource: Source, ctx: Context, version: str, options: ListOptions, choice: Choice
) -> AsyncIterator[tuple[str, Tree]]:
    """The selected events of a watch in `version`. A BOOKMARK has only metadata."""
    assert resource.methods.watch is not None
    sent = SentObjects(choice)
    anywhere = options.resource_version in _ANY
    begin, first = "" if anywhere else options.resource_version, False
    if "watch" in resource.methods.takes_options:
        first = options.send_initial_events if options.send_initial_events is not None else anywhere
        if resource.methods.list is not None and (first or anywhere or not choice.everything):
            trees, now = await resource.everything(ctx, version)
            sent.listed(trees, now)
            if now and first:
                for tree in trees:
                    if choice.matches(tree):
                        yield "ADDED", sent.first(tree)
                if options.allow_watch_bookmarks:
                    yield (
                        "BOOKMARK",
                        {"metadata": {"resourceVersion": now, "annotations": {INITIAL_EVENTS_END: "true"}}},
                    )
            if now and (first or anywhere):
                begin = now
    wanted = WatchOptions(
        resource_version=begin,
        label_selector=options.label_selector,
        field_selector=options.field_selector,
        allow_bookmarks=options.allow_watch_bookmarks,
        timeout_s=options.timeout_seconds,
    )
    async for kind, found in resource.methods.watch(ctx.target.namespace, ctx, wanted):
        if kind == "BOOKMARK":
            if options.allow_watch_bookmarks:
                yield kind, {"metadata": {"resourceVersion": found["metadata"].get("resourceVersion", "")}}
            continue
        shown = await resource.shown(resource.complete(found), version)
        if choice.everything or kind not in _OBJECTS:
            yield kind, shown
            continue
        event = sent.event(kind, shown)
        if event is not None:
            yield event


class SentObjects:
    """What a watch with a selector has sent: turns events into ADDED and DELETED when objects begin or cease to match.

    A client that begins at a resourceVersion knows objects this watch hasn't sent. Those that existed when it began are
    looked up (`listed`). For an event older than that it is unknown whether the object matched before; if it doesn't
    match now, DELETED is sent, which a client that never had the object ignores.
    """

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._sent: dict[NamespacedName, Tree] = {}
        self._initial: dict[NamespacedName, Tree] = {}
        self._removed: set[NamespacedName] = set()
        self._now = ""

    def listed(self, trees: list[Tree], now: str) -> None:
        """The objects that exist at resourceVersion `now`."""
        self._initial = {_place(tree): tree for tree in trees if self._choice.matches(tree)}
        self._now = now

    def first(self, tree: Tree) -> Tree:
        """Note an object that is sent among the initial events."""
        if not self._choice.everything:
            self._sent[_place(tree)] = tree
        return tree

    def event(self, kind: str, shown: Tree) -> tuple[str, Tree] | None:
        """The event to send for one of the user's; None for none."""
        place = _place(shown)
        sent, initial = self._sent.pop(place, None), self._initial.pop(place, None)
        before = sent or initial
        matches = self._choice.matches(shown)
        if kind == "DELETED":
            return ("DELETED", shown) if before is not None or matches else None
        if matches:
            self._sent[place] = shown
            self._removed.discard(place)
            new = sent is None and (initial is None or kind == "ADDED" or self._is_old(shown))
            return ("ADDED" if new else "MODIFIED", shown)
        if before is None and (place in self._removed or not self._is_old(shown)):
            return None
        self._removed.add(place)
        left = {**(before or shown)}
        left["metadata"] = {**left["metadata"]}
        if "resourceVersion" in shown["metadata"]:
            left["metadata"]["resourceVersion"] = shown["metadata"]["resourceVersion"]
        return "DELETED", left

    def _is_old(self, shown: Tree) -> bool:
        """Whether the event is from before the watch began."""
        version = shown["metadata"].get("resourceVersion", "")
        return self._now.isdecimal() and version.isdecimal() and int(version) <= int(self._now)


def _place(tree: Tree) -> NamespacedName:
    metadata = tree["metadata"]
    return metadata.get("namespace", ""), metadata.get("name", "")


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
        """The object, whatever `resource_version` is requested. Raises NotFound, MethodNotAllowed."""
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
