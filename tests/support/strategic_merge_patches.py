"""Makes strategic merge patches as ``kubectl apply`` finds them out: what applying them is tested with.

Source: "Declarative Management of Kubernetes Objects", how apply calculates differences and merges changes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from oarlock.meta.go.gotext import plain
from oarlock.meta.json_trees import same_json
from oarlock.patch.strategic_merge import (
    DELETE,
    DELETE_FROM,
    ORDER,
    PATCH,
    RETAIN,
    UNDECLARED,
    Identity,
    MergeSchema,
    identity,
    key_of,
)

__all__ = ["UndeclaredField", "create"]

Tree = dict[str, Any]


class UndeclaredField(ValueError):
    """An object of which nothing is declared differs, so nobody can say how to merge it."""


def create(original: Tree, modified: Tree, schema: MergeSchema, *, retains: bool = False) -> Tree:
    """The patch that makes `modified` of `original`. With `retains`, one that says anything lists the keys to keep."""
    patch: Tree = {}
    for key, new in modified.items():
        old = original.get(key)
        if key in original and same_json(old, new):
            continue
        if type(old) is dict and type(new) is dict:
            child = _declared(key, schema)
            changed = new if child.replaces else create(old, new, child, retains=child.retains)
            if changed:
                patch[key] = changed
        elif type(old) is list and type(new) is list and _declared(key, schema).merges:
            _merged_list(key, old, new, schema.child(key), patch)
        else:
            patch[key] = new
    patch.update((key, None) for key in original if key not in modified)
    if retains:
        retained = sorted(key for key, value in modified.items() if value is not None)
        removed = any(value is not None and key not in modified for key, value in original.items())
        if retained and (patch or removed):
            patch[RETAIN] = retained
    return patch


def _declared(key: str, schema: MergeSchema) -> MergeSchema:
    child = schema.child(key)
    if child is UNDECLARED:
        raise UndeclaredField(f'unable to find api field for the json field "{key}"')
    return child


def _merged_list(key: str, old: list[Any], new: list[Any], schema: MergeSchema, patch: Tree) -> None:
    """Put into `patch` what it says of a list that is merged."""
    if not old:
        patch[key] = new
    elif schema.key:
        items, order = _keyed(old, new, schema)
        patch.update({key: items} if items else {})
        patch.update({ORDER + key: order} if order else {})
    else:
        before, after = {identity(item): item for item in old}, {identity(item): item for item in new}
        added = [item for value, item in after.items() if value not in before]
        removed = sorted((item for value, item in before.items() if value not in after), key=plain)
        patch.update({key: added} if added else {})
        patch.update({DELETE_FROM + key: removed} if removed else {})
        patch.update({ORDER + key: new} if new else {})


def _keyed(old: list[Any], new: list[Any], schema: MergeSchema) -> tuple[list[Tree], list[Tree]]:
    """What the patch says item by item, and the order of the items."""
    key = schema.key
    before: dict[Identity, deque[Tree]] = defaultdict(deque)
    for item in old:
        before[key_of(item, key)].append(item)
    items: list[Tree] = []
    for item in new:
        same_key = before.get(key_of(item, key))
        if not same_key:
            items.append(item)
            continue
        changed = create(same_key.popleft(), item, schema.items, retains=schema.retains)
        if changed:
            items.append({**changed, key: item[key]})
    removed = [item for left in before.values() for item in left]
    items += [{key: item[key], PATCH: DELETE} for item in sorted(removed, key=lambda item: plain(item[key]))]
    moved = [key_of(item, key) for item in old] != [key_of(item, key) for item in new]
    return items, [{key: item[key]} for item in new] if items or moved else []
