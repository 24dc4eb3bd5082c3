"""OpenAPI v2 (Swagger 2.0): one document for the whole server, as parts that are trees.

kubectl up to 1.26 needs it for explain, validation and dry-run support. Parameters that operations share are written
once, but for those that it looks for without following references.
Must not know: bytes, headers. Source: Swagger 2.0. See also: `parts`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from oarlock.endpoints.catalog import Catalog, CatalogEntry
from oarlock.endpoints.openapi.documents_v3 import ANSWER_TEXTS, Info, full_name, reached, resolved_parts
from oarlock.endpoints.openapi.kinds import (
    GVK,
    META,
    SCALE,
    VERSION_INFO,
    SharedTypes,
    gvk_extension,
    kind_schemas,
    published_names,
    published_v2,
)
from oarlock.endpoints.openapi.operations import SHARED_PARAMETERS, Operation, Parameter, PathOperations, resource_paths
from oarlock.meta.json_trees import Tree
from oarlock.schema.released.published import INT_OR_STRING, QUANTITY, PublishedTypes

REFERENCE = "#/definitions/"
PARAMETER = "#/parameters/"
_SHARED_BODIES = ("DeleteOptions", "Patch")
_OF_EVERY_SERVER = (
    *(META + name for name in ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions")),
    *(META + name for name in ("ListMeta", "ObjectMeta", "Patch", "Status", "WatchEvent")),
    *(INT_OR_STRING, QUANTITY, SCALE, VERSION_INFO),
)
_encode = msgspec.json.Encoder().encode


def own_v2(path: PathOperations) -> Tree:
    """A path of discovery or of the version."""
    return {path.path: _path(path)}


def entry_v2(
    entry: CatalogEntry, info: Info, types: PublishedTypes | None, ambiguous: frozenset[str]
) -> tuple[Tree, Tree]:
    """The paths of a resource, and the schemas of its own."""
    paths = {path.path: _path(path) for path in resource_paths(entry, info.patch_types, types)}
    return paths, _written(kind_schemas(entry, types, ambiguous, v2=True))


def shared_v2(catalog: Catalog, types: PublishedTypes | None) -> Tree:
    """The schemas that all groups share."""
    versions = [(group.name, version) for group in catalog.in_order() for version in group.versions]
    found = reached(SharedTypes(versions, types), shared_names(catalog, types))
    schemas = {name: published_v2(schema) for name, schema in found.items()}
    for name in (INT_OR_STRING, QUANTITY):  # v2 has no alternatives, and its clients parse numbers here as text
        schemas[name]["type"] = "string"
    return _written(schemas)


def shared_names(catalog: Catalog, types: PublishedTypes | None) -> list[str]:
    """The names of the shared schemas that anything served may refer to; what those refer to is left out."""
    names = {*_OF_EVERY_SERVER}
    for group in catalog.in_order() if types is not None else ():
        for version in group.versions:
            for entry in group.of_version(version):
                names.update(published_names(entry, types))
    return sorted(names)


def shared_parameters() -> Tree:
    """The parameters that operations of all groups share, by the names that Kubernetes gives them."""
    known = {name: _parameter(parameter) for parameter, name in _parameter_names().items()}
    known |= {_shared_name(body): body for body in map(_body, _SHARED_BODIES)}
    return dict(sorted(known.items()))


def _written(schemas: dict[str, Tree]) -> Tree:
    return {name: _resolved(schema) for name, schema in sorted(schemas.items())}


def _path(path: PathOperations) -> Tree:
    tree: Tree = {operation.method: _operation(operation) for operation in path.operations}
    if path.parameters:
        tree["parameters"] = [_reference(parameter) for parameter in path.parameters]
    return tree


def _reference(parameter: Parameter) -> Tree:
    """A parameter, or where it is. Those that kubectl up to 1.27 looks for in operations are in place."""
    name = _parameter_names().get(parameter)
    return _parameter(parameter) if name is None else {"$ref": PARAMETER + name}


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


def _body(name: str) -> Tree:
    needed = {} if name == "DeleteOptions" else {"required": True}
    return {"name": "body", "in": "body", **needed, "schema": {"$ref": REFERENCE + full_name(name)}}


@cache
def _parameter_names() -> Mapping[Parameter, str]:
    return {parameter: _shared_name(_parameter(parameter)) for parameter in SHARED_PARAMETERS}


@cache
def _shared_body(name: str) -> Tree:
    return {"$ref": PARAMETER + _shared_name(_body(name))}


def _shared_name(tree: Tree) -> str:
    """``pretty-tJGM1-ng``: the name and FNV-1 of the JSON that Go writes, which is what Kubernetes takes."""
    text = _encode(tree).replace(b"<", rb"\u003c").replace(b">", rb"\u003e").replace(b"&", rb"\u0026")
    mixed = 0xCBF29CE484222325
    for byte in text:
        mixed = (mixed * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF) ^ byte
    return f"{tree['name']}-{base64.urlsafe_b64encode(mixed.to_bytes(8, 'big')[:6]).decode()}"


def _operation(operation: Operation) -> Tree:
    parameters = [_reference(parameter) for parameter in operation.parameters]
    if operation.body:
        shared = operation.body in _SHARED_BODIES
        parameters.insert(0, _shared_body(operation.body) if shared else _body(operation.body))
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
