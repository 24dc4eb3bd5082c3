"""`Representation`: what a path shows of an object, and what a write to the path does to the object.

Most paths show the object itself (`WHOLE`); ``/scale`` shows a Scale.
Must not know: URLs, media types. See also: `scale`, the other representation.
"""

from __future__ import annotations

from typing import Final, Protocol

from oarlock.meta.context import Context
from oarlock.meta.json_trees import Tree
from oarlock.registry.read.results import Item
from oarlock.registry.write.update import Change

__all__ = ["WHOLE", "Representation"]


class Representation(Protocol):
    """How an object is shown and written. Without I/O."""

    def item(self, item: Item) -> Item:
        """What is shown of an object of a result."""
        ...

    def change(self, change: Change, ctx: Context) -> Change:
        """The change of the object for one made for what is shown of it."""
        ...

    def configuration(self, config: Tree, live: Tree) -> Tree:
        """The apply configuration of the object for one of what is shown of it. `live` is empty if there is none."""
        ...


class _Whole:
    def item(self, item: Item) -> Item:
        return item

    def change(self, change: Change, ctx: Context) -> Change:
        return change

    def configuration(self, config: Tree, live: Tree) -> Tree:
        return config


WHOLE: Final[Representation] = _Whole()
"""The object as it is."""
