"""Who owns which field, as a text in the metadata of an object that a user's own storage keeps.

``managedFields`` are trees; a user gets them as one text (`ObjectMeta.field_owners`), to keep and to give back. Foreign
types see ``managedFields`` themselves. Next: `virtual_methods` and `subresource_hooks`, where objects pass.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oarlock.registry.served import Tree

__all__ = ["for_the_user", "from_the_user"]

_OWNERS = "fieldOwners"
_entries = msgspec.json.Decoder(list[dict[str, Any]]).decode


def for_the_user(tree: Tree) -> Tree:
    """`tree`, changed in place: its managedFields as a text."""
    entries = tree["metadata"].pop("managedFields", None)
    if entries:
        tree["metadata"][_OWNERS] = msgspec.json.encode(entries).decode()
    return tree


def from_the_user(tree: Tree) -> Tree:
    """`tree`, changed in place: the text as managedFields; one that can't be read is none."""
    said = tree.get("metadata", {}).pop(_OWNERS, None)
    if said:
        try:
            entries = _entries(said)
        except msgspec.MsgspecError:
            entries = []
        if entries:
            tree["metadata"]["managedFields"] = entries
    return tree
