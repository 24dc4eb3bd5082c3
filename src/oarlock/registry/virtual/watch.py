"""A watch of a virtual resource: its start, its initial events, and its events under a selector.

A method that takes `WatchOptions` only has to yield the events after a resourceVersion; the rest comes from the user's
`list`.
Must not know: streams, media types. See also: `virtual.resource`, whose watches these are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from oarlock.meta.context import Context
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import NamespacedName
from oarlock.meta.options import ListOptions, WatchOptions
from oarlock.registry.served import VirtualMethods
from oarlock.registry.virtual.selection import Choice

__all__ = ["SentObjects", "Source", "follow"]

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
