"""The results of recipes: objects, and what was done to them.

See also: `served_resource`, whose methods return them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.registry.stored.body_bytes import encode_body
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.workers import aside, is_wide
from oarlock.storage.cache.entry import Entry

__all__ = ["EncodedItem", "EntryItem", "Item", "ListItem", "Listing", "MutationResult", "TreeItem"]


class Item(Protocol):
    """One object."""

    async def body(self, version: str) -> bytes:
        """The object in `version`, the request version: everything after apiVersion and kind (see ``stored.form``)."""
        ...

    async def tree(self, version: str) -> Tree:
        """The object in `version`, the request version."""
        ...


class EntryItem(NamedTuple):
    """An object in the cache, which has the bytes of the stored version."""

    resource: StoredResource
    entry: Entry

    async def body(self, version: str) -> bytes:
        return await self.resource.body(self.entry, version)

    async def tree(self, version: str) -> Tree:
        return await self.resource.tree(self.entry, version)


class TreeItem(NamedTuple):
    """An object that isn't in the cache, in the request version: of a dry run, of a virtual resource, or deleted."""

    shown: Tree

    async def body(self, version: str) -> bytes:
        shown = self.shown
        return await aside(encode_body, shown) if is_wide(shown) else encode_body(shown)

    async def tree(self, version: str) -> Tree:
        return self.shown


class ListItem(Protocol):
    """One object of a list. `body` is in the version that the list names."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def body(self) -> bytes: ...


class EncodedItem(NamedTuple):
    """An object of a list of a virtual resource."""

    namespace: str
    name: str
    body: bytes

    @classmethod
    def of(cls, tree: Tree) -> EncodedItem:
        metadata = tree["metadata"]
        return cls(metadata.get("namespace", ""), metadata.get("name", ""), encode_body(tree))


class MutationResult(NamedTuple):
    """The result of a write.

    `created` makes a 201; `removed` says that a DELETE removed the object with this `uid` and `name`.
    """

    item: Item
    created: bool = False
    removed: bool = False
    uid: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list at `resource_version`: chunks of items in key order, whose bodies are in `version`.

    `remaining` is None when unknown.
    """

    version: str
    chunks: Iterable[Sequence[ListItem]]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
