"""`ObjectKey`: namespace and name of an object, which is all that a work queue holds of it.

Must not know: queues, kinds.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

__all__ = ["MAX_KEY_LENGTH", "ObjectKey", "check_lease_name", "checked_key", "key_of", "metadata_tree"]

_LEASES = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

MAX_KEY_LENGTH = 1_024
"""How many characters namespace and name have together at most; Kubernetes allows 63 and 253."""


class ObjectKey(NamedTuple):
    """Namespace and name; the namespace is empty for a cluster-scoped object. As a text, ``namespace/name``."""

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
