"""Short ways to reach into objects that are plain dicts."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from oarlock.apps.kinds.common.go_shapes import SHAPES
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree

Settle = Callable[[Tree], None]
"""Completes an object in place."""

Update = Callable[[Tree, Tree, Context], None]
"""Completes a changed object in place; the second is the object before."""

StatusCheck = Callable[[Tree, Tree, Context], Iterable[FieldError]]
"""The errors in an object after a write to its status; the second is the object before."""

TreeCheck = Callable[[Tree, Tree | None, Context], Iterable[FieldError]]
"""The errors in an object; the second is the object before."""


def at(tree: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path; `default` where it is absent or null."""
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return default if tree is None else tree


def below(tree: Tree, name: str) -> Tree:
    """The object in a field, which is made if it isn't there."""
    found: Tree | None = tree.get(name)
    if found is None:
        found = tree[name] = {}
    return found


_OF_CONTEXT: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_ZEROS: Final[Mapping[str, Any]] = {"s": "", "i": 0, "b": False}


def go_value(kind: str, value: Mapping[str, Any] | None) -> Any:
    """An object of Go's type `kind`; None for a pointer to nothing."""
    if value is None or kind not in SHAPES:
        return _sorted(value)
    return {name: _field(what, value.get(key)) for name, key, what in _fields(kind)}


def go_list(kind: str, values: Any) -> Any:
    """A list of such objects; one that isn't there is null."""
    return None if values is None else [go_value(kind, item) for item in values]


def go_diff(kind: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> str:
    """What an update would change in an object, line by line, after the message that forbids it."""
    before, after = (f"{json.dumps(go_value(kind, tree), indent=1, ensure_ascii=False)}\n" for tree in (old, new))
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return "".join([*lines][2:])


def go_pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification of a pod with what Go keeps in its security context."""
    context = {**(spec.get("securityContext") or {})}
    context.update((name, spec[name]) for name in _OF_CONTEXT if spec.get(name) is not None)
    return {**spec, "securityContext": context}


def _fields(kind: str) -> tuple[tuple[str, str, str], ...]:
    """The fields of a type: Go's name, the name in JSON, and what it is."""
    fields = []
    for part in SHAPES[kind].split():
        names, _, what = part.partition(":")
        name, _, key = names.partition("=")
        fields.append((name, key or f"{name[:1].lower()}{name[1:]}", what))
    return tuple(fields)


def _field(what: str, value: Any) -> Any:
    if what in _ZEROS:
        return _ZEROS[what] if value is None else value
    if what.startswith("[]"):
        return go_list(what[2:], value)
    if what.startswith("?"):
        return go_value(what[1:], value)
    return go_value(what, value or {}) if what else _sorted(value)


def _sorted(value: Any) -> Any:
    """What Go shows as clients write it: the keys of its maps are in order, as are selectors' fields."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=_place)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _place(key: str) -> tuple[bool, str]:
    return key != "matchLabels", key
