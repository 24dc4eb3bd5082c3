"""Objects on both sides of the wire: typed ones of declared classes, and trees.

Must not know: transports, paths. See also: `client`.
"""

from __future__ import annotations

from typing import Any

from oarlock.client.kinds import KindPath
from oarlock.codec import json

__all__ = ["Tree", "encoded", "metadata_of", "shown", "tree_of"]

Tree = dict[str, Any]


def shown(tree: Tree, path: KindPath) -> Any:
    """A tree from the server as the caller wants it: of the declared class, or as it is.

    Raises ViewError when it doesn't fit the class.
    """
    return tree if path.projection is None else path.projection.view(tree)


def tree_of(obj: Any, path: KindPath) -> Tree:
    """What is sent for an object: its fields with apiVersion and kind. A tree is not changed."""
    tree = obj if path.projection is None or isinstance(obj, dict) else path.projection.wire(obj)
    return {**tree, "apiVersion": path.api_version, "kind": path.kind}


def metadata_of(tree: Tree) -> Tree:
    """The metadata of a tree; empty when it has none."""
    metadata = tree.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def encoded(body: Any) -> bytes:
    """A body as JSON; bytes as they are."""
    return body if isinstance(body, bytes) else json.encode(body)
