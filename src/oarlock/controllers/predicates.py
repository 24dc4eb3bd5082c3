"""Which changes of an object are worth a reconcile: functions of the object before and after.

    class Databases(Controller[Database], when=generation_changed): …

The old object is None when it is created, the new one when it is deleted. A resync asks no predicate.
Source: controller-runtime ``pkg/predicate``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.controllers.keys import metadata_tree

__all__ = ["Predicate", "annotations_changed", "any_of", "deletion_changed", "generation_changed", "labels_changed"]

Predicate = Callable[[Any, Any], bool]
"""Told the old and the new object; returns whether to reconcile."""


def generation_changed(old: Any, new: Any) -> bool:
    """Created, deleted, marked for deletion, or anything changed but metadata and status.

    True for a kind without generations. Metadata are labels, annotations, finalizers and owners too.
    """
    if old is None or new is None:
        return True
    before, after = metadata_tree(old), metadata_tree(new)
    if not after.get("generation") or before.get("generation") != after.get("generation"):
        return True
    return before.get("deletionTimestamp") != after.get("deletionTimestamp")


def deletion_changed(old: Any, new: Any) -> bool:
    """Created, deleted, marked for deletion, or its finalizers changed: all that who cleans up after it needs.

    A status that such a controller writes isn't among them, so that it never wakes itself.
    """
    if old is None or new is None or _differs(old, new, "finalizers"):
        return True
    return metadata_tree(old).get("deletionTimestamp") != metadata_tree(new).get("deletionTimestamp")


def labels_changed(old: Any, new: Any) -> bool:
    """Created, deleted, or its labels changed."""
    return old is None or new is None or _differs(old, new, "labels")


def annotations_changed(old: Any, new: Any) -> bool:
    """Created, deleted, or its annotations changed."""
    return old is None or new is None or _differs(old, new, "annotations")


def any_of(*predicates: Predicate) -> Predicate:
    """True when one of them is."""
    return lambda old, new: any(predicate(old, new) for predicate in predicates)


def _differs(old: Any, new: Any, name: str) -> bool:
    return (metadata_tree(old).get(name) or {}) != (metadata_tree(new).get(name) or {})
