"""Pruning: removes the fields that a schema doesn't declare.

`prune` does it, in document order. `compile_clean` makes a fast function that only
tells whether there is anything to prune, which is rare; it relies on values having
the types in the schema. Must not know: metadata, except that it isn't pruned in embedded objects.
Source: CustomResourceDefinition pruning; the paths are those of Kubernetes' strict decoding errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.schema.structural.nodes import Node
from oarlock.schema.validation.findings import Where, render

MAX_REPORTED = 100
"""So many removed fields are named; the rest is removed without a word."""

_META = frozenset({"apiVersion", "kind", "metadata"})
_NOTHING = Node()


def prune(tree: Any, node: Node | None, *, root: bool = False) -> list[str]:
    """Remove undeclared fields in place; returns their paths, at most `MAX_REPORTED`.

    With `root`, apiVersion, kind and metadata of `tree` itself are kept, as in an embedded object.
    """
    paths: list[str] = []
    _prune(tree, node or _NOTHING, None, paths, root)
    return paths


def _prune(tree: Any, node: Node, where: Where, paths: list[str], root: bool) -> None:
    if type(tree) is dict:
        _prune_object(tree, node, where, paths, root or node.embedded)
    elif type(tree) is list:
        items = node.items
        if items is None:
            if node.preserve:
                return
            items = _NOTHING
        for i, item in enumerate(tree):
            if type(item) is dict or type(item) is list:
                _prune(item, items, (where, i), paths, False)


def _prune_object(tree: dict[str, Any], node: Node, where: Where, paths: list[str], embedded: bool) -> None:
    properties, additional = node.properties, node.additional
    unknown: list[str] = []
    for key, value in tree.items():
        if embedded and key in _META:
            continue
        child = properties.get(key)
        if child is None and additional is not None:
            child = additional if isinstance(additional, Node) else _NOTHING
        if child is None:
            if node.preserve:
                continue
            unknown.append(key)
            if len(paths) < MAX_REPORTED and (where or key not in _META):
                paths.append(render((where, key)))
        elif type(value) is dict or type(value) is list:
            _prune(value, child, (where, key), paths, False)
    for key in unknown:
        del tree[key]


Clean = Callable[[Any], bool]


def compile_clean(node: Node) -> Clean | None:
    """A function that returns whether `prune` would leave a tree unchanged; None when it always would.

    It may return False for a clean tree. It doesn't look at values with a scalar schema.
    """
    if node.type in ("string", "integer", "number", "boolean"):
        return None
    if node.type == "array":
        return _clean_array(node)
    meta = _META if node.embedded else frozenset()
    children = [
        (key, clean) for key, child in node.properties.items() if key not in meta and (clean := compile_clean(child))
    ]
    if node.additional is not None:
        return _clean_map(node, meta, dict(children))
    if node.preserve:
        return _clean_children(children) if children else None
    return _clean_object(frozenset(node.properties) | meta, children)


def _clean_array(node: Node) -> Clean | None:
    if node.items is None and node.preserve:
        return None
    clean = compile_clean(node.items or _NOTHING)
    if clean is None:
        return None

    def clean_array(tree: Any) -> bool:
        if type(tree) is not list:
            return type(tree) is not dict
        for item in tree:  # noqa: SIM110  (a generator costs more than the loop)
            if not clean(item):
                return False
        return True

    return clean_array


def _clean_object(declared_names: frozenset[str], children: list[tuple[str, Clean]]) -> Clean:
    covers = declared_names.issuperset

    def clean_object(tree: Any) -> bool:
        if type(tree) is not dict:
            return type(tree) is not list
        if not covers(tree):
            return False
        for key, clean in children:
            value = tree.get(key)
            if value and not clean(value):
                return False
        return True

    return clean_object


def _clean_children(children: list[tuple[str, Clean]]) -> Clean:
    def clean_children(tree: Any) -> bool:
        if type(tree) is not dict:
            return type(tree) is not list
        for key, clean in children:
            value = tree.get(key)
            if value and not clean(value):
                return False
        return True

    return clean_children


def _clean_map(node: Node, meta: frozenset[str], children: dict[str, Clean]) -> Clean | None:
    values = compile_clean(node.additional if isinstance(node.additional, Node) else _NOTHING)
    if values is None and not children:
        return None
    declared = frozenset(node.properties) | meta

    def clean_map(tree: Any) -> bool:
        if type(tree) is not dict:
            return type(tree) is not list
        for key, value in tree.items():
            clean = children.get(key) if key in declared else values
            if clean is not None and not clean(value):
                return False
        return True

    return clean_map
