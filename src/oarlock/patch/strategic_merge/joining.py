"""Two strategic merge patches: joined into one, and whether they contradict one another.

Must not know: how patches are made. Next: `making`, the only user.
"""

from __future__ import annotations

from typing import Any

from oarlock.patch.errors import DirectiveError
from oarlock.patch.strategic_merge.merge_schema import MergeSchema
from oarlock.patch.strategic_merge.ordering import in_order
from oarlock.patch.strategic_merge.values import DELETE, ORDER, PATCH, RETAIN, Identity, key_of, same

__all__ = ["conflict", "join"]

Tree = dict[str, Any]

_DROPPED: Any = object()


def join(deletions: Tree, delta: Tree, schema: MergeSchema) -> Tree:
    """One patch of two: `delta` brings what is new, `deletions` removes. Nulls and directives are kept.

    Raises DirectiveError when both say different things with the same directive.
    """
    joined = deletions.copy()
    for key, value in delta.items():
        if key not in joined:
            kept = _undirected(value)
            if kept is not _DROPPED:
                joined[key] = kept
            continue
        said = joined[key]
        if key[:1] == "$":
            if not same(said, value):
                raise DirectiveError(f"two patches to join say different things: {key}")
        elif type(said) is dict and type(value) is dict:
            child = schema.child(key)
            joined[key] = value if child.replaces else join(said, value, child)
        elif type(said) is list and type(value) is list and schema.child(key).merges:
            order = delta.get(ORDER + key, deletions.get(ORDER + key))
            joined[key] = _lists(said, value, schema.child(key), order)
        else:
            joined[key] = value
    return joined


def _undirected(value: Any) -> Any:
    """What is new, without objects that say how they are to be merged: an applied object may hold such."""
    if type(value) is dict:
        if PATCH in value:
            return _DROPPED
        return {key: kept for key, inner in value.items() if (kept := _undirected(inner)) is not _DROPPED}
    if type(value) is list:
        return [kept for item in value if (kept := _undirected(item)) is not _DROPPED]
    return value


def _lists(deletions: list[Any], delta: list[Any], schema: MergeSchema, order: list[Any] | None) -> list[Any]:
    key = schema.key
    if not key:
        return deletions + [item for item in delta if item not in deletions]
    gone = [item for item in deletions if item.get(PATCH) == DELETE]
    said: dict[Identity, Tree] = {key_of(item, key): item for item in deletions if PATCH not in item}
    live = list(said)
    for item in delta:
        value = key_of(item, key)
        said[value] = join(said[value], item, schema.items) if value in said else item
    wanted = [key_of(item, key) for item in (delta if order is None else order)]
    return in_order(list(said.items()), wanted, live) + gone


def conflict(patch: Any, changed: Any, schema: MergeSchema) -> bool:
    """Do two patches for the same object set some field to different values?"""
    if type(patch) is dict:
        if type(changed) is not dict or patch.get(PATCH) != changed.get(PATCH):
            return True
        if schema.replaces:
            return False
        return any(
            conflict(value, changed[key], schema.child(key))
            for key, value in patch.items()
            if key in changed and key not in (PATCH, RETAIN) and not key.startswith("$")
        )
    if type(patch) is list:
        return type(changed) is not list or _lists_conflict(patch, changed, schema)
    return not same(patch, changed)


def _lists_conflict(patch: list[Any], changed: list[Any], schema: MergeSchema) -> bool:
    if schema.merges:
        if not schema.key:
            return False  # values are added and removed one by one
        key = schema.key
        others = {key_of(item, key): item for item in changed}
        return any(
            conflict(item, others[value], schema.items) for item in patch if (value := key_of(item, key)) in others
        )
    return len(patch) != len(changed) or any(
        conflict(one, other, schema.items) for one, other in zip(patch, changed, strict=True)
    )
