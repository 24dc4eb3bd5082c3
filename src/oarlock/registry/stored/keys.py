"""Keys of objects in the store: ``/registry/{group}/{resource}/[{namespace}/]{name}``.

Most of Kubernetes' own groups are stored without their name, as the core group is: ``/registry//leases/…``, which etcd
has as ``/registry/leases/…``.
See also: `stored.form`, for the values.
"""

from __future__ import annotations

from oarlock.meta.built_in import BUILT_IN_GROUPS

__all__ = ["after_prefix", "is_object_key", "object_key", "prefix_of", "split_key"]

_NO_OBJECTS = ("/registry//masterleases/", "/registry//peerserverleases/", "/registry//ranges/")
"""Where kube-apiserver keeps what it notes for itself."""


def prefix_of(group: str, resource: str) -> str:
    """The common prefix of a resource's keys; it ends with a slash."""
    built_in = BUILT_IN_GROUPS.get(group)
    place = "" if built_in is not None and built_in.stored_by_name else group
    return f"/registry/{place}/{resource}/"


def object_key(prefix: str, namespace: str, name: str) -> str:
    return f"{prefix}{namespace}/{name}" if namespace else prefix + name


def after_prefix(prefix: str) -> str:
    """The exclusive end of the key range of `prefix`, which ends with a slash."""
    return prefix[:-1] + "0"


def split_key(prefix: str, key: str) -> tuple[str, str]:
    """The namespace and name in an object's key."""
    namespace, _, name = key[len(prefix) :].rpartition("/")
    return namespace, name


def is_object_key(key: str) -> bool:
    """Whether there is an object at a key of ``/registry/``."""
    return not key.startswith(_NO_OBJECTS)
