"""`MergeSchema`: the merge rules of a structural schema, compiled once per version.

A tree with one node for each object and list: how it is merged, and its child nodes. Other parts of the schema
are ignored. Must not know: patches. See also: `applying`.
"""

from __future__ import annotations

from typing import Any, Final

from oarlock.schema.structural.merge_keys import MERGE_KEY, OBJECT_META_SCHEMA, STRATEGY, merge_keys

SchemaTree = dict[str, Any]

MAX_DEPTH = 100
"""Below so many levels a schema is taken as saying nothing; `structural.parse` refuses deeper ones."""


class MergeSchema:
    """The merge rules of one object or list in a schema.

    `fields` are the nodes of declared fields, `rest` that of any other, `items` that of a list's items.
    `merges` says that items of a list are merged, by `key` or, without one, as values; `replaces` that an object is
    replaced whole; `retains` that a patch made for it lists the keys to keep.
    """

    __slots__ = ("fields", "items", "key", "merges", "replaces", "rest", "retains")

    fields: dict[str, MergeSchema]
    rest: MergeSchema
    items: MergeSchema

    def __init__(self, strategies: str = "", key: str = "") -> None:
        named = strategies.split(",")
        self.fields = {}
        self.rest = self.items = self
        self.key = key
        self.merges = "merge" in named
        self.replaces = "replace" in named
        self.retains = "retainKeys" in named

    def child(self, field: str) -> MergeSchema:
        """The node for a field."""
        return self.fields.get(field, self.rest)


FREE: Final = MergeSchema()
"""Where anything may be: objects merge, lists are replaced."""

UNDECLARED: Final = MergeSchema()
"""Where nothing is declared: applied like `FREE`, but nobody can make a patch for it."""


def compile_schema(schema: SchemaTree) -> MergeSchema:
    """Compile a structural schema.

    At the `root` of an object, apiVersion, kind and metadata have their standard schema.
    """
    node = _compile(schema, 0)
    whole = MergeSchema()
    whole.fields = {**node.fields, "apiVersion": FREE, "kind": FREE, "metadata": _compile(OBJECT_META_SCHEMA, 1)}
    whole.rest = node.rest
    return whole


def _compile(schema: SchemaTree, depth: int) -> MergeSchema:
    properties = schema.get("properties") or {}
    additional, items = schema.get("additionalProperties"), schema.get("items")
    keys = merge_keys(schema)
    if depth > MAX_DEPTH or not (properties or additional or items or keys):
        return FREE
    node = MergeSchema(keys.get(STRATEGY, ""), keys.get(MERGE_KEY, ""))
    node.fields = {name: _compile(field, depth + 1) for name, field in properties.items()}
    node.items = _compile(items, depth + 1) if isinstance(items, dict) else FREE
    if isinstance(additional, dict):
        node.rest = _compile(additional, depth + 1)
    elif additional or not properties or schema.get("x-kubernetes-preserve-unknown-fields"):
        node.rest = FREE
    else:
        node.rest = UNDECLARED
    return node
