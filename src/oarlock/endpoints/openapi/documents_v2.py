"""OpenAPI v2 (Swagger 2.0): one document for the whole server, as parts that are trees.

kubectl up to 1.26 needs it for explain, validation and dry-run support. Parameters are repeated in every operation,
because those clients don't follow references to them.
Must not know: bytes, headers. Source: Swagger 2.0. See also: `parts`.
"""

from __future__ import annotations

from typing import Any

from oarlock.endpoints.catalog import Catalog, CatalogEntry
from oarlock.endpoints.openapi.documents_v3 import (
    ANSWER_TEXTS,
    GVK,
    Info,
    full_name,
    resolved_parts,
    shared_schemas,
)
from oarlock.endpoints.openapi.kinds import gvk_extension, kind_schemas
from oarlock.endpoints.openapi.operations import Operation, Parameter, PathOperations, resource_paths
from oarlock.endpoints.openapi.shared_types import INT_OR_STRING, QUANTITY
from oarlock.meta.json_trees import Tree

__all__ = ["entry_v2", "own_v2", "shared_v2"]

REFERENCE = "#/definitions/"


def own_v2(path: PathOperations) -> Tree:
    """A path of discovery or of the version."""
    return {path.path: _path(path)}


def entry_v2(entry: CatalogEntry, info: Info) -> tuple[Tree, Tree]:
    """The paths and schemas of a resource."""
    paths = {path.path: _path(path) for path in resource_paths(entry, info.patch_types)}
    return paths, _written(kind_schemas(entry, v2=True))


def shared_v2(catalog: Catalog) -> Tree:
    """The schemas that all groups share."""
    schemas = shared_schemas((group.name, version) for group in catalog.in_order() for version in group.versions)
    for name in (INT_OR_STRING, QUANTITY):  # v2 has no alternatives, and its clients parse numbers here as text
        schemas[name] = {"type": "string", **{k: v for k, v in schemas[name].items() if k != "oneOf"}}
    return _written(schemas)


def _written(schemas: dict[str, Tree]) -> Tree:
    return {name: _resolved(schema) for name, schema in sorted(schemas.items())}


def _path(path: PathOperations) -> Tree:
    tree: Tree = {operation.method: _operation(operation) for operation in path.operations}
    if path.parameters:
        tree["parameters"] = [_parameter(parameter) for parameter in path.parameters]
    return tree


def _parameter(parameter: Parameter) -> Tree:
    tree: Tree = {
        "uniqueItems": True,
        "type": parameter.type,
        "description": parameter.description,
        "name": parameter.name,
        "in": parameter.where,
    }
    if parameter.many:
        items = {"type": parameter.type}
        tree |= {"type": "array", "items": items, "collectionFormat": "multi", "uniqueItems": False}
    if parameter.required or parameter.where == "path":
        tree["required"] = True
    return tree


def _operation(operation: Operation) -> Tree:
    parameters = [_parameter(parameter) for parameter in operation.parameters]
    if operation.body:
        body: Tree = {"name": "body", "in": "body", "schema": {"$ref": REFERENCE + full_name(operation.body)}}
        if operation.body_required:
            body["required"] = True
        parameters.insert(0, body)
    tree: Tree = {
        "description": operation.description,
        "consumes": list(operation.consumes),
        "produces": [*([operation.stream] if operation.stream else ()), *operation.produces],
        "schemes": ["https"],
        "tags": [operation.tag],
        "operationId": operation.id,
    }
    if parameters:
        tree["parameters"] = parameters
    tree["responses"] = {code: _answer(code, schemas, operation) for code, schemas in operation.answers}
    if operation.action:
        tree["x-kubernetes-action"] = operation.action
    if operation.gvk is not None:
        tree[GVK] = gvk_extension(operation.gvk)
    return tree


def _answer(code: str, schemas: tuple[str, ...], operation: Operation) -> Tree:
    tree: Tree = {"description": ANSWER_TEXTS[code]}
    if operation.stream and code == "200":
        tree["schema"] = {"type": "string"}
    elif schemas:  # the usual one of several: v2 has no alternatives
        tree["schema"] = {"$ref": REFERENCE + full_name(schemas[0])}
    return tree


def _resolved(schema: Any) -> Any:
    """A schema for v2: references point to definitions and aren't wrapped in an ``allOf``."""
    if isinstance(schema, list):
        return [_resolved(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    alone = schema.get("allOf")
    if isinstance(alone, list) and len(alone) == 1 and isinstance(alone[0], dict) and "$ref" in alone[0]:
        schema = {**{key: value for key, value in schema.items() if key != "allOf"}, **alone[0]}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return {**schema, "$ref": REFERENCE + full_name(reference)}
    return resolved_parts(schema, _resolved)
