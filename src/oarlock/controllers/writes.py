"""Writes that a reconcile makes again and again, and that cost nothing when there is nothing to change.

    await create_or_update(self.client, secret, lambda live: live.data.update(password=…))
    await write_status(self.client, database, DatabaseStatus(ready=3))

Server-side apply is ``client.apply``: best where the whole of what one wants is known. Source: controller-runtime
``controllerutil.CreateOrUpdate``, in behaviour.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from oarlock.client.client import Client
from oarlock.client.objects import tree_of
from oarlock.controllers.keys import key_of, metadata_tree
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import AlreadyExists, Conflict, NotFound
from oarlock.meta.json_trees import Tree

T = TypeVar("T")

ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Written(Generic[T]):
    """The object on the server after a write, and whether the write created, updated or didn't change it."""

    object: T
    outcome: Literal["created", "updated", "unchanged"]


async def create_or_update(client: Client, obj: T, change: Callable[[T], object]) -> Written[T]:
    """Create `obj`, or change the existing object of this name with `change`.

    `change` gets the new or the existing object, and changes it in place. It may be called several times. Nothing is
    written if it changes nothing. A conflict is retried. Raises Conflict after ten attempts.
    """
    kind, key = _kind_of(obj), key_of(obj)
    for _ in range(ATTEMPTS):
        versions: list[str] = []

        def changed(live: T, versions: list[str] = versions) -> None:
            versions.append(_version_of(live))
            change(live)

        try:
            live: T = await client.change(kind, key.name, changed, namespace=key.namespace)
        except NotFound:
            if versions:
                continue  # it was deleted meanwhile
            fresh = copy.deepcopy(obj)
            change(fresh)
            try:
                return Written(await client.create(fresh), "created")
            except AlreadyExists:
                continue
        return Written(live, "unchanged" if _version_of(live) == versions[-1] else "updated")
    raise Conflict(f"{key} comes and goes: it could neither be created nor changed")


async def write_status(client: Client, obj: T, status: Any) -> T:
    """Write `status` to the status subresource of `obj`, unless it has this status. Returns the object.

    `status` is an object of the class of the status field, or a tree. Fields that the class doesn't declare are kept.
    After a conflict the newest object is compared. Raises NotFound, InvalidObject, and Conflict after ten attempts.
    """
    kind, key = _kind_of(obj), key_of(obj)
    ref = await client.ref(kind)
    for attempt in range(ATTEMPTS):
        before = tree_of(obj, ref).get("status") or {}
        diff = merge_patch_between(before, _status_tree(obj, status, await client.ref(kind)))
        if not diff:
            break
        patch = {"metadata": {"resourceVersion": _version_of(obj)}, "status": diff}
        try:
            return await client.patch(kind, key.name, patch, namespace=key.namespace, subresource="status")  # type: ignore[no-any-return]
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
            obj = await client.get(kind, key.name, namespace=key.namespace)
    return obj


def merge_patch_between(before: Tree, after: Tree) -> Tree:
    """The merge patch (RFC 7386) that makes `after` of `before`; empty when they are equal."""
    patch: Tree = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            inner = merge_patch_between(old, value)
            if inner:
                patch[name] = inner
        elif name not in before or old != value:
            patch[name] = value
    return patch


def _status_tree(obj: Any, status: Any, path: Any) -> Tree:
    if isinstance(status, dict):
        return status
    if isinstance(obj, dict):
        raise TypeError(f"the status of a tree is a tree, not {status!r:.100}")
    wanted = copy.copy(obj)
    wanted.status = status
    return tree_of(wanted, path).get("status") or {}


def _kind_of(obj: Any) -> Any:
    return f"{obj.get('apiVersion', '')}/{obj.get('kind', '')}" if isinstance(obj, dict) else type(obj)


def _version_of(obj: Any) -> str:
    return metadata_tree(obj).get("resourceVersion") or ""
