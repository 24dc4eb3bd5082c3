"""`FieldKeeper`: a converter whose objects carry along what their version can't represent, in an annotation.

For servers that store what a client sends of one version by converting it to another, and nothing else: a cluster with
a conversion webhook. There an update through a version takes the fields that it doesn't know from the annotation, as
an update here takes them from the live object (`Converter.carry_over`). The stored version has no annotation.
See also: `conversions`.
"""

from __future__ import annotations

from typing import Any

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import Converter
from oarlock.schema.definition import ResourceDefinition

ANNOTATION = "oarlock.dev/fields-of-other-versions"

MOST_BYTES = 128 * 1024
"""Larger objects don't fit into an annotation, of which Kubernetes lets an object have 256 KiB."""


def keeping_fields(definition: ResourceDefinition, converter: Converter) -> Converter:
    """`converter`, or one that keeps fields if that is needed."""
    if len(definition.versions) < 2 or converter.alike or converter.waits:
        return converter
    return FieldKeeper(definition, converter)


class FieldKeeper(Converter):
    """Converts as `converter`, which doesn't wait, does."""

    waits = False

    def __init__(self, definition: ResourceDefinition, converter: Converter) -> None:
        self._converter = converter
        self._hub = definition.hub
        self._stored = definition.stored_as
        self.pure = converter.pure
        self.threadsafe = converter.threadsafe

    def convert_now(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return [self._converted(tree, from_version, to_version) for tree in trees]

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return self.convert_now(trees, from_version, to_version)

    def carry_over(self, new_hub: Tree, live_hub: Tree, version: str) -> Tree:
        return self._converter.carry_over(new_hub, live_hub, version)

    def convert_partially(self, tree: Tree, from_version: str, to_version: str) -> Tree | None:
        return self._converter.convert_partially(tree, from_version, to_version)

    def _converted(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        hub = tree if from_version == self._hub else self._to_hub(tree, from_version)
        return hub if to_version == self._hub else self._from_hub(hub, to_version)

    def _to_hub(self, tree: Tree, version: str) -> Tree:
        kept, tree = _taken(tree)
        hub = self._plain(tree, version, self._hub)
        if kept is None:
            return hub
        try:
            return self._converter.carry_over(hub, {**hub, **kept}, version)
        except Exception:  # clients write the annotation, too
            return hub

    def _from_hub(self, hub: Tree, version: str) -> Tree:
        _, hub = _taken(hub)
        if version == self._stored:
            return self._plain(hub, self._hub, version)
        before = hub if self._converter.pure else json.decode(json.encode(hub))
        shown = self._plain(hub, self._hub, version)
        seen = shown if self._converter.pure else json.decode(json.encode(shown))
        back = self._plain(seen, version, self._hub)
        fields = {name: value for name, value in before.items() if name not in ("apiVersion", "kind", "metadata")}
        if all(back.get(name) == value for name, value in fields.items()):
            return shown
        text = json.encode(fields).decode()
        if len(text) > MOST_BYTES:
            return shown
        metadata = shown.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), ANNOTATION: text}
        return {**shown, "metadata": {**metadata, "annotations": annotations}}

    def _plain(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        made = self._converter.convert_now([tree], from_version, to_version)
        assert made is not None  # as it doesn't wait
        return made[0]


def _taken(tree: Tree) -> tuple[Tree | None, Tree]:
    """The fields that an object carries along, and the object without them."""
    metadata = tree.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if ANNOTATION not in annotations:
        return None, tree
    rest: dict[str, Any] = {key: value for key, value in annotations.items() if key != ANNOTATION}
    plain = {key: value for key, value in metadata.items() if key != "annotations"}
    tree = {**tree, "metadata": {**plain, "annotations": rest} if rest else plain}
    try:
        kept = json.decode(annotations[ANNOTATION].encode())
    except (DecodeError, AttributeError):
        return None, tree
    return (kept if isinstance(kept, dict) else None), tree
