"""`ObjectKey`: namespace and name of an object, with which a controller is called; `Result`, what it returns for a key.

Finalizers of the object of a key are written as merge patches that say which revision they are of, so that another's
finalizer isn't lost; a conflict is tried again on the newer object.
Must not know: queues, kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from oarlock.client.client import Client
from oarlock.client.objects import metadata_of
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Conflict, NotFound
from oarlock.meta.json_trees import Tree

_LEASES = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

MAX_KEY_LENGTH = 1_024
"""How many characters namespace and name have together at most; Kubernetes allows 63 and 253."""


class ObjectKey(NamedTuple):
    """Namespace and name; the namespace is empty for a cluster-scoped object. ``str()`` gives ``namespace/name``."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def check_lease_name(text: str) -> None:
    """Raise ValueError unless `text` is ``namespace/name`` of a Lease."""
    if not _LEASES.fullmatch(text):
        raise ValueError(f"{text!r} names no lease: write namespace/name, such as kube-system/databases")


def key_of(obj: Any) -> ObjectKey:
    """The key of an object: a typed one, or a tree."""
    metadata = _metadata_of(obj)
    if isinstance(metadata, dict):
        return ObjectKey(metadata.get("namespace") or "", metadata.get("name") or "")
    return ObjectKey(metadata.namespace or "", metadata.name)


def checked_key(key: Any) -> ObjectKey:
    """A key as user code may give it: an `ObjectKey`, or a tuple of namespace and name. Raises ValueError."""
    if type(key) is not ObjectKey:
        if not isinstance(key, tuple) or len(key) != 2 or not all(isinstance(part, str) for part in key):
            raise ValueError(f"{key!r:.200} is no key: return ObjectKey(namespace, name)")
        key = ObjectKey(*key)
    checked: ObjectKey = key
    if not key.name or len(key.namespace) + len(key.name) > MAX_KEY_LENGTH:
        raise ValueError(f"{str(key)!r:.200} names no object")
    return checked


def _metadata_of(obj: Any) -> Any:
    return obj.get("metadata") or {} if isinstance(obj, dict) else obj.metadata


def metadata_tree(obj: Any) -> dict[str, Any]:
    """Those parts of an object's metadata that predicates and owners look at, with their names on the wire."""
    metadata = _metadata_of(obj)
    if isinstance(metadata, dict):
        return metadata
    owners = [
        {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": bool(owner.controller),
        }
        for owner in metadata.owner_references
    ]
    return {
        "name": metadata.name,
        "namespace": metadata.namespace or "",
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
        "generation": metadata.generation,
        "deletionTimestamp": metadata.deletion_timestamp,
        "finalizers": metadata.finalizers,
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "ownerReferences": owners,
    }


ATTEMPTS = 10


async def add_finalizer(client: Client, kind: Any, key: ObjectKey, finalizer: str) -> None:
    """Add a finalizer to an object. Does nothing if it has it, doesn't exist, or is being deleted.

    A conflict is retried. Raises Conflict after ten attempts.
    """

    def added(metadata: Tree) -> list[str] | None:
        finalizers: list[str] = metadata.get("finalizers") or []
        if metadata.get("deletionTimestamp") or finalizer in finalizers:
            return None
        return [*finalizers, finalizer]

    await _write(client, kind, key, added)


async def remove_finalizer(client: Client, kind: Any, key: ObjectKey, finalizer: str, *, uid: str = "") -> None:
    """Remove a finalizer from an object. Does nothing if it doesn't have it, or doesn't exist.

    With `uid`, only the object with this uid is changed. A conflict is retried. Raises Conflict after ten attempts.
    """

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


class TerminalError(Exception):
    """A failure for which a retry is useless. The key isn't reconciled again until its object changes."""


@dataclass(frozen=True, slots=True)
class Result:
    """Returned by `reconcile` to be called again after `requeue_after_s` seconds, or earlier if the object changes.

    With `longest_s`, the delay grows by half with each such result in a row, up to `longest_s` seconds. Use it to wait
    for what others have to finish. Raises ValueError for a negative number, or a `longest_s` below `requeue_after_s`.
    """

    requeue_after_s: float
    longest_s: float | None = None

    def __post_init__(self) -> None:
        if not self.requeue_after_s >= 0:
            raise ValueError(f"requeue_after_s={self.requeue_after_s}: write a number of seconds")
        if self.longest_s is not None and not 0 < self.requeue_after_s <= self.longest_s:
            raise ValueError(f"longest_s={self.longest_s}: give at least requeue_after_s, which is then above 0")

    def wait_s(self, before: int) -> float:
        """The delay in seconds, after `before` such results in a row."""
        if self.longest_s is None:
            return self.requeue_after_s
        return min(self.requeue_after_s * 1.5 ** min(before, 100), self.longest_s)
