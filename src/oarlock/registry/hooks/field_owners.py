"""managedFields as one text (`ObjectMeta.field_owners`), for objects kept in a user's own storage.

A declared class gets managedFields as an opaque text to store and to give back. Foreign types see ``managedFields``
themselves. See also: `virtual_methods` and `subresource_hooks`, where objects are passed to users' code.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oarlock.meta.json_trees import Tree

__all__ = ["for_the_user", "from_the_user"]

_OWNERS = "fieldOwners"
_entries = msgspec.json.Decoder(list[dict[str, Any]]).decode


def for_the_user(tree: Tree) -> Tree:
    """`tree`, changed in place: its managedFields become a text."""
    entries = tree["metadata"].pop("managedFields", None)
    if entries:
        tree["metadata"][_OWNERS] = msgspec.json.encode(entries).decode()
    return tree


def from_the_user(tree: Tree) -> Tree:
    """`tree`, changed in place: the text becomes managedFields; a text that can't be read is dropped."""
    text = tree.get("metadata", {}).pop(_OWNERS, None)
    if text:
        try:
            entries = _entries(text)
        except msgspec.MsgspecError:
            entries = []
        if entries:
            tree["metadata"]["managedFields"] = entries
    return tree
