"""`ClassConversion`: version conversion of declared classes, or types made elsewhere, through ``to_hub``, ``from_hub``.

Conversion is spoke → hub → spoke, for several objects at once. The result has the original metadata, except labels and
annotations, which a version may use for values it has no fields for. The rest is exactly what the
methods return: fields unknown to the classes don't survive a conversion.
Pure. Must not know: requests, the store. See also: ``registry.declare``, which adds the async half of its protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from oarlock.meta.json_trees import Tree
from oarlock.schema.definition import Schema
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.definitions import declaration_of
from oarlock.schema.types.folding import pair, same
from oarlock.schema.types.projections import partial_view
from oarlock.schema.types.resources import Declared, version_name
from oarlock.schema.types.views import TidyPlan, object_schema, plan_of, tidy, view

_to_builtins = msgspec.to_builtins

_ConvertTree = Callable[[Tree], Tree]
_WriteTree = Callable[[Any], Tree]


class ClassConversion:
    """Converts trees between a hub and its spokes. Raises `ViewError` for a tree that doesn't fit its class."""

    pure = True
    """What is converted stays as it is; the result may share its metadata."""

    threadsafe = True
    """``to_hub`` and ``from_hub`` depend on their object alone."""

    def __init__(self, hub: Any, spokes: Iterable[Any], group: str | None = None) -> None:
        """`group` is the one whose versions are called by their names alone, by default the hub's."""
        own = declaration_of(hub).group if group is None else group
        self.classes: dict[str, Any] = {version_name(declaration_of(cls), own): cls for cls in (hub, *spokes)}
        self._hub = version_name(declaration_of(hub), own)
        self._schema = _schema_of(hub)
        self._steps: dict[tuple[str, str], _ConvertTree] = {}
        for source, cls in self.classes.items():
            for target, other in self.classes.items():
                if source != target:
                    self._steps[source, target] = _step(cls, other, hub)

    def convert_now(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        """The trees in `to_version`. KeyError for an undeclared version."""
        if from_version == to_version:
            return trees
        step = self._steps[from_version, to_version]
        return [step(tree) for tree in trees]

    def convert_partially(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        """What can be read of an object that can't be converted, at least its metadata. Must not be stored."""
        step = self._steps[from_version, to_version]
        try:
            converted = partial_view(tree, _schema_of(self.classes[from_version]), step)
        except Exception:  # a user's method that fails on this object
            converted = None
        return converted if converted is not None else {"metadata": tree.get("metadata") or {}}

    def carry_over(self, new_hub: Tree, live_hub: Tree, version: str) -> Tree:
        """On an update through a spoke: takes fields that this version can't represent from the live object.

        `new_hub` is the updated object, converted from `version`; `live_hub` is the live object. Neither is changed.
        """
        if version == self._hub:
            return new_hub
        round_trip = self._steps[version, self._hub](self._steps[self._hub, version](live_hub))
        return merge_from_live(new_hub, live_hub, round_trip, self._schema)


def _schema_of(cls: Any) -> Schema:
    return cls.schema() if isinstance(cls, Foreign) else object_schema(cls)


def _step(source: Any, target: Any, hub: Any) -> _ConvertTree:
    declaration: Declared = declaration_of(target)
    head = {"apiVersion": declaration.gvk.api_version, "kind": declaration.kind}
    from_hub = None if target is hub else target.from_hub
    to_hub = None if source is hub else source.to_hub if isinstance(source, Foreign) else _to_hub
    read, write = _reader(source), _writer(target)

    def convert(tree: Tree) -> Tree:
        there = read(tree)
        if to_hub is not None:
            there = to_hub(there)
        if from_hub is not None:
            there = from_hub(there)
        converted = {**head, "metadata": None, **write(there)}
        converted["metadata"] = _metadata(tree.get("metadata") or {}, converted["metadata"] or {})
        return converted

    return convert


def _to_hub(spoke: Any) -> Any:
    return spoke.to_hub()


def _reader(cls: Any) -> Callable[[Tree], Any]:
    if isinstance(cls, Foreign):
        return cls.view
    return lambda tree: view(tree, cls)


def _writer(cls: Any) -> _WriteTree:
    """What makes a fresh tree of an object, without apiVersion and kind."""
    if isinstance(cls, Foreign):
        return cls.shape.wire
    plan: TidyPlan = plan_of(cls)
    nodes = {name: node for name, node in plan.tidy.items() if name != "metadata"}

    def write(model: Any) -> Tree:
        tree: Tree = _to_builtins(model)
        if nodes:
            tidy(tree, nodes)
        return tree

    return write


def _metadata(old: Tree, new: Tree) -> Tree:
    """The original metadata, with the labels and annotations of the conversion's result."""
    if new.get("name", "") != old.get("name", "") or (not new and old):
        # the method returned no metadata: keep the labels and annotations
        return old
    metadata = old
    for name in ("labels", "annotations"):
        value = new.get(name)
        if value != old.get(name) and (value or old.get(name)):
            if metadata is old:
                metadata = dict(old)
            if value:
                metadata[name] = value
            else:
                del metadata[name]
    return metadata


_ABSENT: Any = object()


def merge_from_live(new: Tree, live: Tree, round_trip: Tree, schema: Schema) -> Tree:
    """`new` with the fields of the live object that the client couldn't see; all in the hub version, as is `schema`.

    `round_trip` is the live object after a round trip through the client's version. Where it differs from `live`, the
    version can't represent the value; where `new` equals `round_trip`, the client didn't change it. There the live
    value stays. Metadata is left alone. Items of lists are matched by map key, else by equality.
    """
    merged: Tree = _merged(
        {**new, "metadata": None}, {**live, "metadata": None}, {**round_trip, "metadata": None}, schema
    )
    return {**merged, "metadata": new.get("metadata", {})}


def _merged(mine: Any, theirs: Any, base: Any, schema: Schema) -> Any:
    if same(theirs, base):
        return mine
    if same(mine, base):
        return theirs
    if isinstance(mine, dict) and isinstance(theirs, dict) and isinstance(base, dict):
        properties: Schema = schema.get("properties") or {}
        rest: Schema = schema.get("additionalProperties") or {}
        result = {}
        for key in {**mine, **theirs}:
            three = (mine.get(key, _ABSENT), theirs.get(key, _ABSENT), base.get(key, _ABSENT))
            value = _merged(*three, properties.get(key, rest))
            if value is not _ABSENT:
                result[key] = value
        return result
    if isinstance(mine, list) and isinstance(theirs, list) and isinstance(base, list):
        return _merged_list(mine, theirs, base, schema)
    return mine


def _merged_list(mine: list[Any], theirs: list[Any], base: list[Any], schema: Schema) -> list[Any]:
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    if not keys and len(theirs) != len(base):
        return mine
    items: Schema = schema.get("items") or {}
    in_base = pair(base, mine, keys, by_position=False)
    in_theirs = pair(theirs, base, keys, by_position=False) if keys else list(range(len(base)))
    result = []
    for item, at in zip(mine, in_base, strict=True):
        live_at = None if at is None else in_theirs[at]
        result.append(item if at is None or live_at is None else _merged(item, theirs[live_at], base[at], items))
    return result
