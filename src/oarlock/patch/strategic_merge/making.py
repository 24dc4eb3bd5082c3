"""Strategic merge patches made: what leads from one object to another, as ``kubectl apply`` finds it out.

Next: `joining`, which three-way patches need; `applying` for the way back.
Source: "Declarative Management of Kubernetes Objects", how apply calculates differences and merges changes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any, NamedTuple

from oarlock.meta.gotext import plain
from oarlock.patch.errors import PatchConflict, UndeclaredField
from oarlock.patch.strategic_merge.joining import conflict, join
from oarlock.patch.strategic_merge.merge_schema import UNDECLARED, MergeSchema
from oarlock.patch.strategic_merge.values import (
    DELETE,
    DELETE_FROM,
    ORDER,
    PATCH,
    RETAIN,
    Identity,
    identity,
    key_of,
    same,
    unlike,
)

__all__ = ["create_three_way", "create_two_way"]

Tree = dict[str, Any]


class _Wanted(NamedTuple):
    """Which differences go into a patch."""

    changes: bool = True
    deletions: bool = True
    order: bool = True


def create_two_way(original: Tree, modified: Tree, schema: MergeSchema) -> Tree:
    """The patch that makes `modified` of `original`. It may share parts with `modified`.

    Raises UndeclaredField where undeclared objects differ, DirectiveError for lists with items of several types or
    without their key, PatchFailed for lists of lists that would have to be merged.
    """
    return _objects(original, modified, schema, _Wanted())


def create_three_way(
    original: Tree, modified: Tree, current: Tree, schema: MergeSchema, *, overwrite: bool = True
) -> Tree:
    """The patch for `current` that brings what is in `modified` and removes what was in `original` only.

    What others have added to `current` stays. Without `overwrite`, PatchConflict when `current` and `modified` have
    changed the same field of `original` differently. Raises besides what `create_two_way` does.
    """
    delta = _objects(current, modified, schema, _Wanted(deletions=False))
    deletions = _objects(original, modified, schema, _Wanted(changes=False))
    patch = join(deletions, delta, schema)
    if not overwrite:
        changed = _objects(original, current, schema, _Wanted(order=False))
        if conflict(patch, changed, schema):
            raise PatchConflict(
                f"patch:\n{plain(patch)}\nconflicts with changes made from original to current:\n{plain(changed)}\n"
            )
    return patch


def _objects(original: Tree, modified: Tree, schema: MergeSchema, wanted: _Wanted, *, retains: bool = False) -> Tree:
    """What a patch says of one object. With `retains`, a patch that says anything lists the keys to keep."""
    patch: Tree = {}
    for key, new in modified.items():
        if key not in original:
            if wanted.changes:
                patch[key] = new
            continue
        old = original[key]
        if type(old) is dict and type(new) is dict:
            child = _declared(key, old, new, schema)
            if child is None:
                continue
            if not child.replaces:
                inner = _objects(old, new, child, wanted, retains=child.retains)
                if inner:
                    patch[key] = inner
            elif wanted.changes and not same(old, new):
                patch[key] = new
        elif type(old) is list and type(new) is list:
            child = _declared(key, old, new, schema)
            if child is None:
                continue
            if child.merges:
                _lists(key, old, new, (child, wanted), patch)
            elif wanted.changes and not same(old, new):
                patch[key] = new
        elif wanted.changes and not same(old, new):
            patch[key] = new
    if wanted.deletions:
        patch.update((key, None) for key in original if key not in modified)
    if retains:
        kept = sorted(key for key, value in modified.items() if value is not None)
        gone = any(value is not None and key not in modified for key, value in original.items())
        if kept and (patch or gone):
            patch[RETAIN] = kept
    return patch


def _declared(key: str, old: Any, new: Any, schema: MergeSchema) -> MergeSchema | None:
    """The schema of a field; None when it doesn't matter, because an undeclared field is as it was."""
    child = schema.child(key)
    if child is not UNDECLARED:
        return child
    if same(old, new):
        return None
    raise UndeclaredField(f'unable to find api field for the json field "{key}"')


def _lists(key: str, old: list[Any], new: list[Any], how: tuple[MergeSchema, _Wanted], patch: Tree) -> None:
    """Put into `patch` what it says of a list that is merged."""
    schema, wanted = how
    if not old:
        if new and wanted.changes:
            patch[key] = new
        return
    if schema.key:
        said, order = _keyed(old, new, schema, wanted)
        removed: list[Any] = []
    else:
        said, removed, order = _values(old, new, wanted)
    if said:
        patch[key] = said
    if removed:
        patch[DELETE_FROM + key] = removed
    if order and wanted.order:
        patch[ORDER + key] = order


def _values(old: list[Any], new: list[Any], wanted: _Wanted) -> tuple[list[Any], list[Any], list[Any]]:
    """Values to add, values to remove, and the order they are to have, if that must be said."""
    before, after = _distinct(old), _distinct(new)
    added = [item for value, item in after.items() if value not in before] if wanted.changes else []
    removed = [item for value, item in before.items() if value not in after] if wanted.deletions else []
    removed.sort(key=plain)
    differs = bool(removed) or (wanted.changes and not same(old, new))
    return added, removed, new if differs else []


def _distinct(items: list[Any]) -> dict[Identity, Any]:
    distinct: dict[Identity, Any] = {}
    for item in items:
        if type(item) is dict or type(item) is list:
            raise unlike(item)
        distinct.setdefault(identity(item), item)
    return distinct


def _keyed(old: list[Any], new: list[Any], schema: MergeSchema, wanted: _Wanted) -> tuple[list[Tree], list[Tree]]:
    """What the patch says item by item, and the order the items are to have, if that must be said."""
    key = schema.key
    before: dict[Identity, deque[Tree]] = defaultdict(deque)
    for item in old:
        before[key_of(item, key)].append(item)
    said: list[Tree] = []
    for item in new:
        same_key = before.get(key_of(item, key))
        if same_key:
            inner = _objects(same_key.popleft(), item, schema.items, wanted, retains=schema.retains)
            if inner:
                said.append({**inner, key: item[key]})
        elif wanted.changes:
            said.append(item)
    if wanted.deletions:
        gone = [item for items in before.values() for item in items]
        said += [{key: item[key], PATCH: DELETE} for item in sorted(gone, key=lambda item: plain(item[key]))]
    moved = [key_of(item, key) for item in old] != [key_of(item, key) for item in new]
    order = [{key: item[key]} for item in new] if said or (wanted.changes and moved) else []
    return said, order
