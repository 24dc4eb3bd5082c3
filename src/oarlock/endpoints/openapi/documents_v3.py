"""OpenAPI v3: one document per group and version, as trees.

A document has its own path, and for each resource the operations and every schema they refer to.
Must not know: bytes, headers, hashes. Source: KEP-2896. See also: `parts`, which encodes them; `documents_v2`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from oarlock.endpoints.catalog import Catalog, CatalogEntry
from oarlock.endpoints.openapi.kinds import (
    GVK,
    VERSION_INFO,
    SharedTypes,
    camel,
    group_tag,
    gvk_extension,
    kind_schemas,
    meta_name,
    title,
)
from oarlock.endpoints.openapi.operations import (
    PRODUCES,
    UNAUTHORIZED,
    Operation,
    Parameter,
    PatchTypes,
    PathOperations,
    resource_paths,
    root_of,
)
from oarlock.endpoints.respond import JSON, JSON_PATCH
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.schema.released.published import PublishedTypes

ANSWER_TEXTS = {
    "200": "OK",
    "201": "Created",
    "202": "Accepted",
    "204": "No Content",
    "401": "Unauthorized",
    "default": "Failure",
}
REFERENCE = "#/components/schemas/"
JSON_PATCH_BODY: Tree = {
    "description": "Operations that are carried out one after the other, RFC 6902.",
    "type": "array",
    "items": {
        "type": "object",
        "required": ["op", "path"],
        "properties": {
            "op": {"type": "string", "enum": ["add", "copy", "move", "remove", "replace", "test"]},
            "path": {"type": "string", "description": "A JSON Pointer to what is changed."},
            "from": {"type": "string", "description": "A JSON Pointer to what is copied or moved."},
            "value": {"description": "What is added, put in place or compared."},
        },
    },
}
"""v2 has one schema, Patch, for all patch bodies."""
VALUES = frozenset({"default", "enum", "example"})
"""Keys whose values are data, in which ``$ref`` isn't a reference."""
_NAMED = ("properties", "responses")
"""Keys of members of which any may be called default."""


@dataclass(frozen=True, slots=True)
class Info:
    """The ``info`` of the documents, and the patch types of each resource."""

    title: str
    version: str
    patch_types: PatchTypes
    program: str = ""

    def tree(self) -> Tree:
        """The ``info`` of a document."""
        return {"title": self.title, "version": self.version}


def entries_of(catalog: Catalog, name: str) -> list[CatalogEntry]:
    """The entries in the group and version of a document; none if it is of no version, or of one that is proxied."""
    group, version = place_of(name)
    found = catalog.group(group)
    return [] if found is None else found.of_version(version)


def place_of(name: str) -> tuple[str, str]:
    """The group and version in the name of a document."""
    if not name.startswith("apis/"):
        return "", name[4:]
    group, _, version = name.removeprefix("apis/").rpartition("/")
    return group, version


def own_path(catalog: Catalog, name: str) -> PathOperations | None:
    """The path of discovery or of the version, which a document begins with; None if there is no such document."""
    produces = PRODUCES
    match name.split("/"):
        case ["version"]:
            answer, operation_id, tag = VERSION_INFO, "getCodeVersion", "version"
            text = "get the version information for this server"
            produces = (JSON,)
        case ["apis"]:
            answer, operation_id, text, tag = "APIGroupList", "getAPIVersions", "get available API versions", "apis"
        case ["api"] if catalog.group("") is not None:
            answer, operation_id, text, tag = "APIVersions", "getCoreAPIVersions", "get available API versions", "core"
        case ["apis", group] if group and catalog.group(group) is not None:
            answer, operation_id = "APIGroup", f"get{camel(group)}APIGroup"
            text, tag = "get information of a group", group_tag(group)
        case ["apis", group, version] if group and catalog.serves(group, version):
            return _version_path(group, version)
        case ["api", version] if catalog.serves("", version):
            return _version_path("", version)
        case _:
            return None
    operation = Operation("get", operation_id, tag, text, (("200", (answer,)), *UNAUTHORIZED), produces=produces)
    return PathOperations(f"/{name}/", operations=[operation])


def _version_path(group: str, version: str) -> PathOperations:
    discovery = Operation(
        "get",
        f"get{camel(group)}{title(version)}APIResources",
        f"{group_tag(group)}_{version}",
        "get available resources",
        (("200", ("APIResourceList",)), *UNAUTHORIZED),
        produces=PRODUCES,
    )
    return PathOperations(f"{root_of(group, version)}/", operations=[discovery])


def full_name(name: str) -> str:
    """A short name of `shared_types` as a definition name; a definition name is returned unchanged."""
    return name if "." in name else meta_name(name)


def own_v3(path: PathOperations) -> tuple[Tree, frozenset[str]]:
    """The path a document begins with, and the names of the shared schemas it refers to."""
    written = {path.path: _path(path)}
    return written, frozenset(map(_name_in, _references(written)))


def entry_v3(
    entry: CatalogEntry, info: Info, types: PublishedTypes | None, ambiguous: frozenset[str]
) -> tuple[Tree, Tree, frozenset[str]]:
    """The paths of a resource, the schemas of its own, and the names of the shared schemas it refers to."""
    paths = {path.path: _path(path) for path in resource_paths(entry, info.patch_types, types)}
    known = kind_schemas(entry, types, ambiguous, v2=False)
    schemas: Tree = {}
    shared: set[str] = set()
    waiting = [*map(_name_in, _references(paths))]
    while waiting:
        name = waiting.pop()
        if name not in known:
            shared.add(name)
        elif name not in schemas:
            schemas[name] = _resolved(known[name])
            waiting += map(_name_in, _references(schemas[name]))
    return paths, schemas, frozenset(shared)


def shared_v3(catalog: Catalog, name: str, wanted: Iterable[str], types: PublishedTypes | None) -> Tree:
    """The shared schemas in a document: those `wanted`, and those they refer to."""
    known = SharedTypes([place_of(name)] if catalog.serves(*place_of(name)) else [], types)
    return {name: _resolved(schema) for name, schema in reached(known, wanted).items()}


def reached(known: SharedTypes, wanted: Iterable[str]) -> dict[str, Tree]:
    """The schemas called `wanted`, and those they refer to, and so on."""
    schemas: dict[str, Tree] = {}
    waiting = [*wanted]
    while waiting:
        one = waiting.pop()
        if one not in schemas:
            schemas[one] = known[one]
            waiting += map(full_name, _references(schemas[one]))
    return schemas


def _path(path: PathOperations) -> Tree:
    tree: Tree = {operation.method: _operation(operation) for operation in path.operations}
    if path.parameters:
        tree["parameters"] = [_parameter(parameter) for parameter in path.parameters]
    return tree


def _parameter(parameter: Parameter) -> Tree:
    tree: Tree = {"name": parameter.name, "in": parameter.where, "description": parameter.description}
    if parameter.required or parameter.where == "path":
        tree["required"] = True
    if parameter.many:
        return {**tree, "schema": {"type": "array", "items": {"type": parameter.type}}}
    return {**tree, "schema": {"type": parameter.type, "uniqueItems": True}}


def _operation(operation: Operation) -> Tree:
    tree: Tree = {"tags": [operation.tag], "description": operation.description, "operationId": operation.id}
    if operation.parameters:
        tree["parameters"] = [_parameter(parameter) for parameter in operation.parameters]
    if operation.body:
        body = _reference(operation.body)
        content = {media: {"schema": JSON_PATCH_BODY if media == JSON_PATCH else body} for media in operation.consumes}
        tree["requestBody"] = {"content": content, **({"required": True} if operation.body_required else {})}
    tree["responses"] = {code: _answer(code, schemas, operation) for code, schemas in operation.answers}
    if operation.action:
        tree["x-kubernetes-action"] = operation.action
    if operation.gvk is not None:
        tree[GVK] = gvk_extension(operation.gvk)
    return tree


def _answer(code: str, schemas: tuple[str, ...], operation: Operation) -> Tree:
    tree: Tree = {"description": ANSWER_TEXTS[code]}
    if operation.stream and code == "200":
        tree["content"] = {operation.stream: {"schema": {"type": "string"}}}
    elif schemas:
        first, *others = (_reference(schema) for schema in schemas)
        schema = {"anyOf": [first, *others]} if others else first
        tree["content"] = {media: {"schema": schema} for media in operation.produces}
    return tree


def _reference(name: str) -> Tree:
    return {"$ref": REFERENCE + full_name(name)}


def _name_in(reference: str) -> str:
    return reference.removeprefix(REFERENCE)


def _references(tree: Any) -> Iterable[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            elif key in _NAMED and isinstance(value, dict):
                yield from _references(list(value.values()))
            elif key not in VALUES:
                yield from _references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _references(value)


def _resolved(schema: Any) -> Any:
    """A schema whose short references point into this document."""
    if isinstance(schema, list):
        return [_resolved(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        return {**schema, "$ref": REFERENCE + full_name(reference)}
    return resolved_parts(schema, _resolved)


def resolved_parts(schema: Tree, resolve: Callable[[Any], Any]) -> Tree:
    """A schema with its parts resolved, those of properties by whatever name, and not what is data."""
    made: Tree = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            made[key] = {name: resolve(inner) for name, inner in value.items()}
        else:
            made[key] = value if key in VALUES else resolve(value)
    return made
