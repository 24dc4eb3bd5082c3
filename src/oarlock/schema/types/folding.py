"""Applies a hook's changes of a typed view to the tree it was made from.

The tree has more than the view (fields of a newer server, managedFields, other spellings of a
time). So only the difference between the view before and after is applied to the tree, never the view itself.
Both functions share every unchanged subtree with the input, don't change their arguments, and return the
same tree when nothing changed.

- `fold` compares trees: list items match by map key, else by equality, else by position.
- `Session` compares objects: a Model that is still the same object is the same item, wherever it was moved.
  A new Model in an old place inherits nothing, except in a list where the map key says that it is the same.

Must not know: which hook. See also: `registry.collection`.
"""

from __future__ import annotations

import operator
from typing import Any, Generic, TypeVar

import msgspec

from oarlock.meta.json_trees import Tree
from oarlock.schema.definition import Schema
from oarlock.schema.types.views import TidyNode, TidyPlan, ViewError, builtins_of, plan_of, view

T = TypeVar("T")

_ABSENT: Any = object()


class WrongResult(Exception):
    """The object doesn't fit its class after a hook has changed it. The text says where."""


def same(a: Any, b: Any) -> bool:
    """Equality of JSON values: 1, 1.0 and True are different."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        if len(a) != len(b):
            return False
        for key, value in a.items():
            other = b.get(key, _ABSENT)
            if other is not value and not same(value, other):
                return False
        return True
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def fold(tree: Any, before: Any, after: Any, schema: Schema) -> Any:
    """`tree` with the changes from `before` to `after`. `schema` has the map keys of list items."""
    if same(before, after):
        return tree
    if isinstance(tree, dict) and isinstance(before, dict) and isinstance(after, dict):
        properties: Schema = schema.get("properties") or {}
        rest: Schema = schema.get("additionalProperties") or {}
        folded = {key: value for key, value in tree.items() if key in after or key not in before}
        for key, value in after.items():
            if key not in before:
                folded[key] = value
            elif not same(before[key], value):
                folded[key] = fold(tree.get(key, _ABSENT), before[key], value, properties.get(key, rest))
        return folded
    if isinstance(tree, list) and isinstance(before, list) and isinstance(after, list) and len(tree) == len(before):
        pairs = pair(before, after, tuple(schema.get("x-kubernetes-list-map-keys", ())), by_position=True)
        items: Schema = schema.get("items") or {}
        return [
            value if at is None else fold(tree[at], before[at], value, items)
            for value, at in zip(after, pairs, strict=True)
        ]
    return after


def pair(before: list[Any], after: list[Any], keys: tuple[str, ...], *, by_position: bool) -> list[int | None]:
    """For each item of `after`, the matching item of `before`; None for a new one."""
    if keys and all(isinstance(item, dict) for item in (*before, *after)):
        places = {_key(item, keys): i for i, item in enumerate(before)}
        return [places.get(_key(item, keys)) for item in after]
    # by text rather than pair by pair, which would be quadratic when a hook reorders a thousand items
    alike: dict[bytes, list[int]] = {}
    for i in range(len(before) - 1, -1, -1):
        alike.setdefault(_text(before[i]), []).append(i)
    pairs: list[int | None] = []
    for item in after:
        places_left = alike.get(_text(item))
        pairs.append(places_left.pop() if places_left else None)
    if by_position:
        paired = set(pairs)
        pairs = [i if at is None and i < len(before) and i not in paired else at for i, at in enumerate(pairs)]
    return pairs


def _text(item: Any) -> bytes:
    return msgspec.json.encode(item, order="deterministic")


def _key(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple((type(item.get(key)), item.get(key)) for key in keys)


class Session(Generic[T]):
    """One hook's work on one tree: the hook may change `object`; `result()` is the changed tree.

    Must be made before the hook runs, in order to recognise the same objects afterwards.
    """

    __slots__ = ("_bytes", "_cls", "_models", "_plan", "_tree", "object")

    def __init__(self, tree: Tree, cls: type[T]) -> None:
        self.object: T = view(tree, cls)
        self._cls = cls
        self._tree = tree
        self._plan: TidyPlan = plan_of(cls)
        self._bytes = msgspec.json.encode(self.object)
        # keeps the Models alive, so that no id is reused while the hook runs
        self._models: list[Any] = []
        _collect(self.object, self._plan, self._models)

    def result(self) -> Tree:
        """The tree with the hook's changes; the original tree when there are none. Raises `WrongResult`."""
        try:
            if msgspec.json.encode(self.object) == self._bytes:
                return self._tree
            return self._checked(self._folded())
        except TypeError as error:  # what JSON has no word for
            raise WrongResult(str(error)) from error

    def _checked(self, folded: Tree) -> Tree:
        try:
            view(folded, self._cls)
        except ViewError as error:
            # A missing field may have been left out by the client: schema validation reports it.
            if not str(error.__cause__).startswith(_MISSING):
                raise WrongResult("; ".join(mistake.message for mistake in error.errors[:10])) from error
        return folded

    def _folded(self) -> Tree:
        pristine = view(self._tree, self._cls)  # the same again, Model for Model
        before, after = builtins_of(pristine), builtins_of(self.object)
        places: list[_Slot] = []
        _place_model(pristine, self._plan, self._tree, before, places)
        memory = {id(m): (m, *at) for m, at in zip(self._models, places, strict=True) if at is not None}
        folded: Tree = _fold_fields(self.object, self._plan, (self._tree, before, after), memory)
        return folded


_MISSING = "Object missing required field"
"""How msgspec begins to say that there is too little."""

_Memory = dict[int, tuple[Any, Any, Any]]
"""id of a Model → the Model, its tree, and how it was."""

_Three = tuple[Any, Any, Any]
_Slot = tuple[Any, Any] | None
"""The tree of a Model and how it was; None where the tree has no such place."""


def _collect(model: Any, plan: TidyPlan, models: list[Any]) -> None:
    """Every Model in a view, in a fixed order."""
    models.append(model)
    for attribute, _, node in plan.models:
        value = getattr(model, attribute)
        if value is not None:
            _collect_value(value, node, models)


def _collect_value(value: Any, node: TidyNode, models: list[Any]) -> None:
    if value is None:
        return
    if node.kind == "model":
        _collect(value, node.inner, models)
    else:
        for item in value if node.kind == "list" else value.values():
            _collect_value(item, node.inner, models)


def _place_model(model: Any, plan: TidyPlan, tree: Any, before: Any, places: list[_Slot]) -> None:
    """The place of every Model in a view, in the order of `_collect`."""
    is_object = isinstance(tree, dict)
    places.append((tree, before) if is_object else None)
    for attribute, name, node in plan.models:
        value = getattr(model, attribute)
        if is_object and name in before:
            _place_value(value, node, tree.get(name), before[name], places)
        else:
            _place_value(value, node, None, None, places)


def _place_value(value: Any, node: TidyNode, tree: Any, before: Any, places: list[_Slot]) -> None:
    if value is None:
        return
    if node.kind == "model":
        _place_model(value, node.inner, tree, before, places)
    elif node.kind == "list":
        same_length = isinstance(tree, list) and len(tree) == len(value)
        for i, item in enumerate(value):
            _place_value(item, node.inner, tree[i] if same_length else None, before[i] if same_length else None, places)
    else:
        same_length = isinstance(tree, dict)
        for key, item in value.items():
            _place_value(
                item, node.inner, tree.get(key) if same_length else None, before[key] if same_length else None, places
            )


def _fold_fields(model: Any, plan: TidyPlan, three: _Three, memory: _Memory) -> Any:
    """Fold the fields of a Model that is the same object, or matches by map key."""
    tree, before, after = three
    if not plan.models and same(before, after):  # most items of a list
        return tree
    folded = {key: value for key, value in tree.items() if key in after or key not in before}
    nodes = {name: (attribute, node) for attribute, name, node in plan.models}
    for key, value in after.items():
        was = before.get(key, _ABSENT)
        if key not in tree and same(was, value):
            # a default of the class, not of this object
            continue
        if key in nodes:
            attribute, node = nodes[key]
            # metadata is always this object's own, whatever the hook put there
            keep = key == "metadata"
            part = _fold_value(getattr(model, attribute), node, (tree.get(key, _ABSENT), was, value), memory, keep=keep)
            if part is not folded.get(key, _ABSENT):
                folded[key] = part
        elif not same(was, value):
            folded[key] = value if was is _ABSENT else fold(tree.get(key, _ABSENT), was, value, {})
    return tree if _unchanged(folded, tree) else folded


def _unchanged(folded: Tree, tree: Tree) -> bool:
    if len(folded) != len(tree):
        return False
    for key, value in folded.items():  # noqa: SIM110 (a generator takes twice as long)
        if value is not tree.get(key, _ABSENT):
            return False
    return True


def _fold_value(value: Any, node: TidyNode, three: _Three, memory: _Memory, *, keep: bool = False) -> Any:
    tree, was, after = three
    if node.kind == "model":
        remembered = memory.get(id(value))
        if remembered is not None:
            return _fold_fields(value, node.inner, (remembered[1], remembered[2], after), memory)
        if (keep or same(was, after)) and isinstance(tree, dict) and isinstance(was, dict):
            return _fold_fields(value, node.inner, three, memory)
        return after
    if value is None or was is _ABSENT:
        tree = was = _ABSENT
    if value is None:
        return after
    if node.kind == "list":
        return _fold_list(value, node, (tree, was, after), memory)
    folded = {}
    for key, item in value.items():
        of = tree.get(key, _ABSENT) if isinstance(tree, dict) else _ABSENT
        before = was.get(key, _ABSENT) if isinstance(was, dict) else _ABSENT
        folded[key] = _fold_value(item, node.inner, (of, before, after[key]), memory)
    return tree if isinstance(tree, dict) and _unchanged(folded, tree) else folded


def _fold_list(value: list[Any], node: TidyNode, three: _Three, memory: _Memory) -> Any:
    tree, was, after = three
    comparable = isinstance(tree, list) and isinstance(was, list) and len(tree) == len(was)
    new = [i for i, item in enumerate(value) if id(item) not in memory]
    used = {id(memory[id(item)][1]) for item in value if id(item) in memory}
    pairs: dict[int, int] = {}
    if comparable and new:
        free = [i for i, subtree in enumerate(tree) if id(subtree) not in used]
        matched = pair([was[i] for i in free], [after[i] for i in new], node.keys, by_position=False)
        pairs = {i: free[at] for i, at in zip(new, matched, strict=True) if at is not None}
    folded = []
    for i, item in enumerate(value):
        at = pairs.get(i)
        here = (tree[at], was[at], after[i]) if at is not None else (_ABSENT, _ABSENT, after[i])
        folded.append(_fold_value(item, node.inner, here, memory, keep=at is not None))
    if comparable and len(folded) == len(tree) and all(map(operator.is_, folded, tree)):
        return tree
    return folded
