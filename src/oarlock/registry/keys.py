"""Where an object is in the store: ``/registry/{group}/{resource}/[{namespace}/]{name}``.

Only text. Next: `stored_form`, which says what stands at such a key.
"""

from __future__ import annotations

__all__ = ["after_prefix", "object_key", "prefix_of", "split_key"]


def prefix_of(group: str, resource: str) -> str:
    """Everything a resource stores is below this; it ends with a slash."""
    return f"/registry/{group}/{resource}/"


def object_key(prefix: str, namespace: str, name: str) -> str:
    return f"{prefix}{namespace}/{name}" if namespace else prefix + name


def after_prefix(prefix: str) -> str:
    """The end of the range that `prefix` (which ends with a slash) starts."""
    return prefix[:-1] + "0"


def split_key(prefix: str, key: str) -> tuple[str, str]:
    """Namespace and name of an object's key."""
    namespace, _, name = key[len(prefix) :].rpartition("/")
    return namespace, name
