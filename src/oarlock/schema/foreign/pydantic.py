"""`pydantic_shape`: the `Shape` of a pydantic 2 model. pydantic itself reads and writes the objects.

pydantic is never imported; only methods of the model are used. See also: `pydantic_schema`, which makes its schema;
`foreign_trees` for operations on trees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import msgspec

from oarlock.meta.json_trees import Tree
from oarlock.schema.definition import NestedType, Schema
from oarlock.schema.foreign.pydantic_schema import Structure
from oarlock.schema.foreign.shape import Shape
from oarlock.schema.foreign.trees import compile_renaming, in_order
from oarlock.schema.types.markers import AS_JSON


def pydantic_shape(cls: Any, *, names: Literal["camel", "own"] = "camel", as_json: Sequence[str] = ()) -> Shape[Any]:
    """The `Shape` of a pydantic 2 model.

    - Fields are camelCase on the wire; an alias is used unchanged. With ``names="own"`` every name is used unchanged.
    - `as_json` are paths on the wire (``spec.parts[].extra``) of fields that are published as free JSON, whatever their
      type. pydantic still reads and checks them, and the value that was sent is kept. `AsJSON` in an ``Annotated`` does
      the same.
    - None is left out on the wire, unless the field is required and may be None.
    """

    @cache
    def made() -> tuple[Schema, Mapping[str, NestedType]]:
        structure = Structure(cls, names, as_json)
        return structure.schema(), structure.nested

    def schema() -> Schema:
        return made()[0]

    @cache
    def renaming() -> tuple[Any, Any]:
        return compile_renaming(schema(), to_wire=False), compile_renaming(schema(), to_wire=True)

    def view(tree: Tree) -> Any:
        own = renaming()[0]
        return cls.model_validate_json(msgspec.json.encode(tree if own is None else own(tree)))

    def wire(model: Any) -> Tree:
        tree = model.model_dump(mode="json", by_alias=True)
        to_wire = renaming()[1]
        result: Tree = _as_published(tree if to_wire is None else to_wire(tree), schema())
        return result

    return Shape(schema, view, wire, lambda: made()[1])


def _as_published(tree: Any, schema: Schema) -> Any:
    """The dumped object without computed fields, which aren't in the schema, and without None in optional fields."""
    if AS_JSON in schema:
        return tree
    if type(tree) is list:
        items: Schema = schema.get("items") or {}
        published = [_as_published(item, items) for item in tree]
        return sorted(published, key=in_order) if schema.get("x-kubernetes-list-type") == "set" else published
    if type(tree) is not dict:
        return tree
    properties: Schema = schema.get("properties", {})
    values: Any = schema.get("additionalProperties")
    if isinstance(values, dict):
        return {key: _as_published(value, values) for key, value in tree.items()}
    required = schema.get("required", ())
    open_ = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or not properties
    return {
        key: _as_published(value, properties[key]) if key in properties else value
        for key, value in tree.items()
        if (key in properties or open_) and (value is not None or key in required or key not in properties)
    }
