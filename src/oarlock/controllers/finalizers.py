"""Finalizers: marks on an object that keep it until what was done for it is undone.

They are written as merge patches that say which revision they are of, so that another's finalizer isn't lost; a
conflict is tried again on the newer object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.client.client import Client
from oarlock.client.objects import metadata_of
from oarlock.controllers.keys import ObjectKey
from oarlock.meta.errors import Conflict, NotFound
from oarlock.meta.json_trees import Tree

__all__ = ["add_finalizer", "remove_finalizer", "tree_of_object"]

ATTEMPTS = 10


async def add_finalizer(client: Client, kind: Any, key: ObjectKey, finalizer: str) -> None:
    """Put a finalizer on an object, unless it is there. Does nothing for an object that is gone, or being deleted."""

    def added(metadata: Tree) -> list[str] | None:
        finalizers: list[str] = metadata.get("finalizers") or []
        if metadata.get("deletionTimestamp") or finalizer in finalizers:
            return None
        return [*finalizers, finalizer]

    await _write(client, kind, key, added)


async def remove_finalizer(client: Client, kind: Any, key: ObjectKey, finalizer: str, *, uid: str = "") -> None:
    """Take a finalizer off an object, if it is there. With `uid`, only off that very object, not a later one."""

    def removed(metadata: Tree) -> list[str] | None:
        finalizers: list[str] = metadata.get("finalizers") or []
        if finalizer not in finalizers or (uid and metadata.get("uid") != uid):
            return None
        return [name for name in finalizers if name != finalizer]

    await _write(client, kind, key, removed)


async def tree_of_object(client: Client, kind: Any, key: ObjectKey) -> Tree | None:
    """An object as it is on the server now, as a tree; None if it doesn't exist."""
    ref = await client.ref(kind)
    try:
        tree: Tree = await client.request("GET", ref.object(key.name, key.namespace))
    except NotFound:
        return None
    return tree


async def _write(client: Client, kind: Any, key: ObjectKey, change: Callable[[Tree], list[str] | None]) -> None:
    for attempt in range(ATTEMPTS):
        tree = await tree_of_object(client, kind, key)
        finalizers = None if tree is None else change(metadata_of(tree))
        if tree is None or finalizers is None:
            return
        metadata = metadata_of(tree)
        patch = {
            "metadata": {
                "finalizers": finalizers or None,
                "resourceVersion": metadata.get("resourceVersion"),
                "uid": metadata.get("uid"),
            }
        }
        try:
            await client.patch(kind, key.name, patch, namespace=key.namespace)
        except NotFound:
            return
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return
