"""Applies a mutation's patch to an object: an apply configuration by the object's schema, or a JSON patch.

Pure: the object isn't changed; parts that aren't touched are shared. See also: `patch_values`.
Source: k8s.io/apiserver ``admission/plugin/policy/mutating/patch``.
"""

from __future__ import annotations

import re
from typing import Any

from oarlock.codec import json
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.patch import json_patch
from oarlock.patch.apply import elements
from oarlock.patch.apply.errors import TypedError
from oarlock.patch.apply.merge import merge
from oarlock.patch.apply.schema import DEDUCED, ListType, MapType, ValueType, atom
from oarlock.patch.apply.validate import check
from oarlock.patch.errors import PatchError, TestFailed
from oarlock.policy.admission.mutations.compiled import APPLY_CONFIGURATION
from oarlock.policy.admission.mutations.patch_values import (
    MAX_PATCH_BYTES,
    MutationFailed,
    configuration_tree,
    operations_tree,
)

__all__ = ["MAX_OBJECT_BYTES", "mutated"]

MAX_OBJECT_BYTES = 3 * 1024 * 1024
"""The most bytes an object may have after a mutation, as JSON."""

MOST_ATOMIC = 100
"""Nobody reads more."""

_does_not_apply = re.compile(r"(\w+) operation does not apply: (.*?): (/.*)?", re.DOTALL).fullmatch


def mutated(kind: str, value: Any, tree: Tree, type_: ValueType, limit: int = MAX_PATCH_BYTES) -> Tree:
    """The object with the patch of `kind` that an expression has computed; itself if that changes nothing.

    `type_` is that of the object. Raises MutationFailed, and `MutationTooLarge` for a patch of more than `limit` bytes.
    """
    if kind == APPLY_CONFIGURATION:
        made = _configured(tree, configuration_tree(value, limit), type_)
    else:
        made = _patched(tree, operations_tree(value, limit))
    if made is tree or made == tree:
        return tree
    if not isinstance(made, dict) or not isinstance(made.get("metadata"), dict):
        raise MutationFailed("the patch makes something else of the object")
    made = {**made, **{name: tree[name] for name in ("apiVersion", "kind") if name in tree}}
    if json.depth_exceeds(made, json.MAX_DEPTH):
        raise MutationFailed("exceeded max depth")
    if len(json.encode(made)) > MAX_OBJECT_BYTES:
        raise MutationFailed(f"the object would have more than {MAX_OBJECT_BYTES} bytes")
    return made


def _configured(tree: Tree, configuration: Tree, type_: ValueType) -> Any:
    try:
        check(type_, configuration)
    except TypedError as error:
        raise _not_applied(f"failed to convert patch object to typed object: {error}") from None
    found: list[str] = []
    _find_atomic(type_, configuration, (), found)
    if found:
        places = ", ".join(found[:MOST_ATOMIC])
        why = f"may not mutate atomic arrays, maps or structs: {places}"
        raise _not_applied(f"invalid ApplyConfiguration: {why}")
    try:
        return merge(type_, tree, configuration)
    except TypedError as error:
        raise _not_applied(f"failed to merge patch: {error}") from None


def _not_applied(why: str) -> MutationFailed:
    return MutationFailed(f"error applying patch: {why}")


def _find_atomic(type_: ValueType, value: Any, place: tuple[str, ...], found: list[str]) -> None:
    """The places of lists and objects that can only be replaced as a whole."""
    form = atom(type_, value)
    if form is None or len(found) > MOST_ATOMIC:
        return
    if form.atomic and isinstance(value, dict | list):
        found.append(elements.path_text(place))
    if isinstance(form, MapType) and isinstance(value, dict):
        for name, inner in value.items():
            _find_atomic(form.child(name), inner, (*place, elements.field(name)), found)
    elif isinstance(form, ListType) and isinstance(value, list):
        for at, inner in enumerate(value):
            _find_atomic(form.element or DEDUCED, inner, (*place, elements.index(at)), found)


def _patched(tree: Tree, operations: list[Tree]) -> Any:
    try:
        return json_patch.apply(tree, json_patch.from_tree(operations))
    except TestFailed:
        return tree
    except PatchError as error:
        raise MutationFailed(f"JSON Patch: {_told(str(error))}") from None


def _told(text: str) -> str:
    """What is wrong with a patch, in the words of the library that Kubernetes uses."""
    parts = _does_not_apply(text)
    if parts is None:
        return text
    name, why, path = parts[1], parts[2], parts[3] or ""
    if why == "missing value" and name != "copy":
        last = path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        return f"error in {name} for path: '{path}': Unable to remove nonexistent key: {last}: missing value"
    if why == "doc is missing path":
        return f"{name} operation does not apply: {why}: {quote(path)}: missing value"
    if why == "doc is missing key":
        return f"{name} operation does not apply: {why}: {path}: missing value"
    return text
