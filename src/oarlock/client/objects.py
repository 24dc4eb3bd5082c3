"""Objects as a client sends and reads them, typed or as trees; pages of lists, and the query parameters of lists.

Must not know: transports, paths. See also: `client`. Source: k8s.io/apimachinery ``meta/v1`` ListOptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from oarlock.client.kinds import ResourceRef
from oarlock.client.transport import TransportError
from oarlock.codec import json
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.meta.options_parse import QueryPairs
from oarlock.schema.types.resources import Resource, Spoke
from oarlock.schema.types.views import wire

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ObjectPage(Generic[T]):
    """One page of a list. `remaining` is the number of objects after it, 0 if the server doesn't know."""

    items: list[T]
    resource_version: str
    remaining: int


def shown(tree: Tree, ref: ResourceRef) -> Any:
    """A tree from the server as the caller wants it: of the declared class if it is of that kind, or as it is.

    Raises ViewError when it doesn't fit the class.
    """
    if ref.projection is None or (tree.get("apiVersion"), tree.get("kind")) != (ref.api_version, ref.kind):
        return tree
    return ref.projection.view(tree)


def tree_of(obj: Any, ref: ResourceRef) -> Tree:
    """What is sent for an object: its fields with apiVersion and kind. A tree is not changed."""
    tree = obj if ref.projection is None or isinstance(obj, dict) else ref.projection.wire(obj)
    return {**tree, "apiVersion": ref.api_version, "kind": ref.kind}


def body_of(body: Any) -> Any:
    """What is sent as a request's body: the tree of a typed object, everything else as it is."""
    return wire(body) if isinstance(body, Resource | Spoke) else body


def items_of(page: Tree, ref: ResourceRef) -> list[Tree]:
    """The objects of a list. Servers leave out the type of each. Raises TransportError when it is no list."""
    items = page.get("items") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise TransportError(f"the answer isn't a list of {ref.plural}", sent=True)
    head = {"apiVersion": ref.api_version, "kind": ref.kind}
    return [{**head, **item} for item in items]


def metadata_of(tree: Tree) -> Tree:
    """The metadata of a tree; empty when it has none."""
    metadata = tree.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def encoded(body: Any) -> bytes:
    """A body as JSON; bytes as they are."""
    return body if isinstance(body, bytes) else json.encode(body)


WATCH_S = 300
"""How long a server is asked to keep a watch open. It is resumed, so nobody sees the end."""


def pairs(parameters: Mapping[str, str]) -> QueryPairs:
    """The parameters that aren't empty."""
    return [(name, value) for name, value in parameters.items() if value]


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list or watch selects. `page_size` is how many objects come in one answer; 0: all in one.

    `include_uninitialized` asks for objects too that wait for their initializers.
    """

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    page_size: int = 500
    include_uninitialized: bool = False

    def pairs(self, continue_token: str) -> QueryPairs:
        """The parameters of a list."""
        version = "" if continue_token else self.resource_version
        limit = {"limit": str(self.page_size)} if self.page_size else {}
        return pairs({**self._selectors(), "resourceVersion": version, **limit, "continue": continue_token})

    def watch_pairs(self, resource_version: str) -> QueryPairs:
        """The parameters of a watch that begins at `resource_version`."""
        timeout = {"timeoutSeconds": str(WATCH_S), "allowWatchBookmarks": "true", "watch": "true"}
        return pairs({**self._selectors(), "resourceVersion": resource_version, **timeout})

    def watch_list_pairs(self) -> QueryPairs:
        """The parameters of a watch that begins with everything that exists (KEP-3157)."""
        initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return (*self.watch_pairs(""), *pairs(initial))

    def _selectors(self) -> dict[str, str]:
        waiting = "true" if self.include_uninitialized else ""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {**selectors, "includeUninitialized": waiting}
