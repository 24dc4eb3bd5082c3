"""The published schemas of kinds and their lists, in v3 and v2.

v3 publishes a definition's schema as it is, but for Kubernetes' own kinds, whose types are shared ones if their release
is known. v2 leaves out defaults, nullable, alternatives, and the fields of objects with unknown fields, which older
kubectl would reject. References are names as in `shared_types`.
Must not know: operations, documents. Source: how a CustomResourceDefinition's schema is published. See also:
`documents_v3`.
"""

from __future__ import annotations

from typing import Any

from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.openapi.naming import definition_name
from oarlock.endpoints.openapi.nested import nested_names, set_apart
from oarlock.endpoints.openapi.shared_types import API_VERSION, CONVENTIONS, GVK, KIND, gvk_extension, is_published
from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.definition import Schema, Subresource
from oarlock.schema.released import published
from oarlock.schema.released.published import QUANTITY, PublishedTypes
from oarlock.schema.structural.merge_keys import merge_keys
from oarlock.schema.types.reflect import QUANTITY_PATTERN

__all__ = ["kind_schemas", "published_names", "published_v2", "published_v3", "sub_schema_name"]


PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
_SCHEMAS = ("additionalProperties", "items", "not")
_LISTS = ("allOf", "anyOf", "oneOf")
_NOT_IN_V2 = ("default", "nullable", "oneOf", "anyOf", "allOf", "not")


def published_v3(schema: Schema) -> Schema:
    """A schema without the private ``x-oarlock-`` keys; of an int-or-string it says in OpenAPI's terms what it is."""
    tree = _each(schema, published_v3)
    if schema.get(INT_OR_STRING) and not tree.keys() & {"type", "anyOf", "allOf"}:
        tree["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return tree


def published_v2(schema: Schema) -> Schema:
    """A schema reduced to what OpenAPI v2 and its clients support."""
    kept = {key: value for key, value in schema.items() if key not in _NOT_IN_V2}
    if schema.get(PRESERVE) or schema.get("nullable"):
        for key in ("type", "items", "properties", "additionalProperties", "required"):
            kept.pop(key, None)
    if schema.get(INT_OR_STRING):
        kept.pop("type", None)
    named = schema.get("allOf", [{}])[0].get("$ref")
    return {**_each(kept, published_v2), **({"$ref": named} if named else {})}


def _each(schema: Schema, publish: Any) -> Schema:
    """The schema with its parts published."""
    tree: Schema = {}
    for key, value in schema.items():
        if key.startswith("x-oarlock-"):
            continue
        if key == "properties":
            tree[key] = {name: publish(prop) for name, prop in value.items()}
        elif key in _SCHEMAS and isinstance(value, dict):
            tree[key] = publish(value)
        elif key in _LISTS:
            tree[key] = [publish(part) for part in value]
        else:
            tree[key] = value
    return tree


def _compiled_in(schema: Schema) -> Schema:
    """A schema as Kubernetes publishes those of built-in kinds.

    Every list has its merge strategy, even the default one; integers and strings of shared types refer to those, by
    which clients format them.
    """
    if schema.get(INT_OR_STRING):
        name = QUANTITY if schema.get("pattern") == QUANTITY_PATTERN else published.INT_OR_STRING
        beside: Schema = {key: schema[key] for key in ("description", "default", "nullable") if key in schema}
        return {**beside, "allOf": [{"$ref": name}]}
    tree: Schema = {**schema, **merge_keys(schema)}
    if "properties" in tree:
        tree["properties"] = {name: _compiled_in(prop) for name, prop in tree["properties"].items()}
    for key in ("additionalProperties", "items"):
        if isinstance(tree.get(key), dict):
            tree[key] = _compiled_in(tree[key])
    return tree


def kind_schemas(
    entry: CatalogEntry, types: PublishedTypes | None = None, ambiguous: frozenset[str] = frozenset(), *, v2: bool
) -> dict[str, Schema]:
    """The schemas of a kind, of the classes in it, of its list, and of the bodies of its subresources, by their names.

    Those that are shared types are left out: `types` are those of Kubernetes' own kinds. `ambiguous` names are those of
    several classes of the version.
    """
    publish = published_v2 if v2 else published_v3
    schemas = {} if is_published(entry, types) else _of_kind(entry, ambiguous, v2=v2)
    for sub in entry.subresources.values():
        for part, schema in (("Request", sub.request_schema), ("Response", sub.response_schema)):
            name = sub_schema_name(entry, sub, part, types)
            if schema and (types is None or name not in types):
                schemas[name] = publish(_compiled_in(schema) if entry.definition.typed else schema)
    return schemas


def _of_kind(entry: CatalogEntry, ambiguous: frozenset[str], *, v2: bool) -> dict[str, Schema]:
    name = definition_name(entry.gvk)
    schema, found = entry.version.schema, dict[str, Schema]()
    if entry.definition.typed:
        nested = entry.version.nested
        schema, found = set_apart(_compiled_in(schema), nested, nested_names(entry, ambiguous))
    publish = published_v2 if v2 else published_v3
    schemas = {name: _object(schema, entry.gvk, v2=v2), **{inside: publish(tree) for inside, tree in found.items()}}
    selectable = entry.version.selectable
    if selectable:
        fields = [{"fieldPath": path.removeprefix(".")} for path in selectable]
        schemas[name]["x-kubernetes-selectable-fields"] = fields
    list_gvk = GroupVersionKind(entry.gvk.group, entry.gvk.version, entry.list_kind)
    if "list" in entry.verbs:
        schemas[definition_name(list_gvk)] = _list(entry, name, list_gvk)
    return schemas


def published_names(entry: CatalogEntry, types: PublishedTypes | None) -> list[str]:
    """The names of the shared types that a kind of Kubernetes' own consists of; none if it is another."""
    if types is None or not is_published(entry, types):
        return []
    found = [definition_name(entry.gvk)]
    if "list" in entry.verbs:
        found.append(definition_name(GroupVersionKind(entry.gvk.group, entry.gvk.version, entry.list_kind)))
    found += [definition_name(sub.kind) for sub in entry.subresources.values() if sub.request_schema]
    return [name for name in found if name in types]


def sub_schema_name(entry: CatalogEntry, sub: Subresource, part: str, types: PublishedTypes | None) -> str:
    """The definition name of the body (``Request``) or answer (``Response``) of a user's subresource.

    Those of Kubernetes' own kinds have a type in `types`: ``io.k8s.api.policy.v1.Eviction``.
    """
    named = definition_name(sub.kind)
    if types is not None and is_published(entry, types) and named in types:
        return named
    return f"{definition_name(entry.gvk)}.{sub.name}.{part}"


def _object(schema: Schema, gvk: GroupVersionKind, *, v2: bool) -> Schema:
    extension = [gvk_extension(gvk)]
    description = {"description": schema["description"]} if schema.get("description") else {}
    if not schema or (v2 and (schema.get(PRESERVE) or schema.get("nullable"))):
        return {**description, "type": "object", GVK: extension}
    tree = (published_v2 if v2 else published_v3)(schema)
    own = {k: v for k, v in tree.get("properties", {}).items() if k not in ("apiVersion", "kind", "metadata")}
    reference: Schema = {"$ref": "ObjectMeta"} if v2 else {"allOf": [{"$ref": "ObjectMeta"}]}
    metadata = {"description": f"Standard object's metadata. {CONVENTIONS}#metadata", **reference}
    tree["properties"] = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, **own}
    tree[GVK] = extension
    return tree


def _list(entry: CatalogEntry, item: str, gvk: GroupVersionKind) -> Schema:
    return {
        "description": f"{entry.list_kind} is a list of {entry.gvk.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": API_VERSION,
            "items": {
                "description": f"List of {entry.definition.names.plural}. {CONVENTIONS}",
                "type": "array",
                "items": {"$ref": item},
            },
            "kind": KIND,
            "metadata": {
                "description": f"Standard list metadata. {CONVENTIONS}#types-kinds",
                "allOf": [{"$ref": "ListMeta"}],
            },
        },
        GVK: [gvk_extension(gvk)],
    }
