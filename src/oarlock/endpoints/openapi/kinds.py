"""The published schemas of kinds and their lists, in v3 and v2, and how types are named and shared.

v3 publishes a definition's schema as it is, but for Kubernetes' own kinds, whose types are shared ones if their release
is known. v2 leaves out defaults, nullable, alternatives, and the fields of objects with unknown fields, which older
kubectl would reject. Definition names are reversed domains, so that documents of several servers can be merged.
References are written ``{"$ref": "ObjectMeta"}``, or with the full name. The classes inside of declared kinds are types
of their own (``com.example.wardle.v1.FlunderSpec``); a name that two of a group and version have is that of neither:
each is called after the kind it is in.
Must not know: operations, documents. Source: how a CustomResourceDefinition's schema is published; k8s.io/apimachinery
``meta/v1``. See also: `documents_v3`; ``schema.released``, where the data of releases is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from oarlock.endpoints.catalog import Catalog, CatalogEntry
from oarlock.meta.kinds import BUILT_IN_GROUPS, GroupVersionKind
from oarlock.schema.definition import NestedType, Schema, Subresource
from oarlock.schema.released import published
from oarlock.schema.released.published import QUANTITY, PublishedTypes, meta_types, published_types
from oarlock.schema.structural.merge_keys import merge_keys
from oarlock.schema.types.reflect import QUANTITY_PATTERN

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
"""The prefix of the types every server has, as clients and generators expect it."""


def meta_name(kind: str) -> str:
    return META + kind


def definition_name(gvk: GroupVersionKind) -> str:
    """``wardle.example.com/v1 Flunder`` → ``com.example.wardle.v1.Flunder``; Kubernetes' own kinds as it names them."""
    built_in = BUILT_IN_GROUPS.get(gvk.group)
    package = built_in.package if built_in is not None else ".".join(reversed(gvk.group.split(".")))
    return f"{package}.{gvk.version}.{gvk.kind}"


def title(text: str) -> str:
    """The text with its first letter in upper case, the others as they are."""
    return text[:1].upper() + text[1:]


def article(kind: str) -> str:
    """``a Pod``, ``an Ingress``; ``Endpoints`` are many."""
    if kind.endswith("s") and not kind.endswith("ss"):
        return kind
    return f"{'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"


def camel(group: str) -> str:
    """``wardle.example.com`` → ``WardleExampleCom``, ``storage.k8s.io`` → ``Storage``."""
    parts = re.split(r"[^A-Za-z0-9]+", group.removesuffix(".k8s.io"))
    return "".join(map(title, parts)) if group else "Core"


def group_tag(group: str) -> str:
    """``wardle.example.com`` → ``wardleExampleCom``."""
    name = camel(group)
    return name[:1].lower() + name[1:]


GVK = "x-kubernetes-group-version-kind"
# Clients show these texts as those of every kind: they are Kubernetes' own.
CONVENTIONS = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
API_VERSION: Schema = {
    "type": "string",
    "description": "APIVersion defines the versioned schema of this representation of an object. Servers should "
    "convert recognized schemas to the latest internal value, and may reject unrecognized values. "
    f"{CONVENTIONS}#resources",
}
KIND: Schema = {
    "type": "string",
    "description": "Kind is a string value representing the REST resource this object represents. Servers may infer "
    "this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. "
    f"{CONVENTIONS}#types-kinds",
}
VERSION_INFO = "io.k8s.apimachinery.pkg.version.Info"
SCALE = "io.k8s.api.autoscaling.v1.Scale"
_OF_EVERY_GROUP = (f"{META}DeleteOptions", f"{META}WatchEvent")


def gvk_extension(gvk: GroupVersionKind) -> Schema:
    return {"group": gvk.group, "kind": gvk.kind, "version": gvk.version}


def types_of(catalog: Catalog) -> PublishedTypes | None:
    """The types of the release whose kinds are served, if any are."""
    for name in BUILT_IN_GROUPS:
        group = catalog.groups.get(name)
        for served in group.resources.values() if group is not None else ():
            if served.definition.released:
                return published_types(served.definition.released)
    return None


def is_published(entry: CatalogEntry, types: PublishedTypes | None) -> bool:
    """Whether the kind of an entry is one of Kubernetes' own, whose type is known as Kubernetes publishes it."""
    return (
        types is not None
        and entry.definition.typed
        and entry.gvk.group in BUILT_IN_GROUPS
        and definition_name(entry.gvk) in types
    )


class SharedTypes:
    """The shared schemas by definition name; those that occur in every group list `versions` as their own."""

    def __init__(self, versions: Iterable[tuple[str, str]], types: PublishedTypes | None) -> None:
        self._versions = [*versions]
        self._types = types

    def __iter__(self) -> Iterator[str]:
        """The names of those that every server has."""
        return iter(meta_types())

    def __getitem__(self, name: str) -> Schema:
        found = meta_types().get(name)
        if found is None and self._types is not None:
            return self._types.schema(name)
        if found is None:
            raise KeyError(name)
        if name in _OF_EVERY_GROUP:
            kind = name.rpartition(".")[2]
            return {**found, GVK: [gvk_extension(GroupVersionKind(*version, kind)) for version in self._versions]}
        return found


_OWN = ("type", "properties", "required")
"""What a class says; the rest is said of the field that has it."""

_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def ambiguous_names(entries: Iterable[CatalogEntry], types: PublishedTypes | None) -> frozenset[str]:
    """The names that more than one class has in a group and version, whose `entries` these are."""
    origins: dict[str, set[str]] = {}
    for entry in entries:
        for kind in (entry.gvk.kind, entry.list_kind):
            origins.setdefault(kind, set()).add("kind")
        for nested in () if is_published(entry, types) else _nested_in(entry):
            known = origins.setdefault(nested.name, set())
            known.add(nested.origin)
            name = definition_name(GroupVersionKind(entry.gvk.group, entry.gvk.version, nested.name))
            if types is not None and name in types:
                known.add("release")
    return frozenset(name for name, found in origins.items() if len(found) > 1)


def nested_names(entry: CatalogEntry, ambiguous: frozenset[str]) -> dict[str, str]:
    """The definition names of the classes in a kind and in the bodies of its subresources, by their origins."""
    names: dict[str, str] = {}
    for nested in _nested_in(entry):
        if nested.origin not in names:
            names[nested.origin] = _free_name(entry, nested, ambiguous, names)
    return names


def _nested_in(entry: CatalogEntry) -> Iterator[NestedType]:
    yield from entry.version.nested.values()
    for sub in entry.subresources.values():
        yield from (*sub.request_nested.values(), *sub.response_nested.values())


def _free_name(entry: CatalogEntry, nested: NestedType, ambiguous: frozenset[str], taken: Mapping[str, str]) -> str:
    kind = f"{entry.gvk.kind}.{nested.name}" if nested.name in ambiguous else nested.name
    name = base = definition_name(GroupVersionKind(entry.gvk.group, entry.gvk.version, kind))
    number = 1
    while name in taken.values():
        number += 1
        name = f"{base}{number}"
    return name


def set_apart(
    schema: Schema, nested: Mapping[str, NestedType], names: Mapping[str, str]
) -> tuple[Schema, dict[str, Schema]]:
    """The schema with references to the classes in it, and the schemas of those by name. `names` are by origin."""
    found: dict[str, Schema] = {}

    def part(tree: Schema, path: str) -> Schema:
        made = {**tree}
        if "properties" in tree:
            made["properties"] = {name: part(field, f"{path}.{name}") for name, field in tree["properties"].items()}
        for key in ("items", "additionalProperties"):
            if isinstance(tree.get(key), dict):
                made[key] = part(tree[key], f"{path}[]")
        if path not in nested or made.get("type") != "object" or made.get(_PRESERVE):
            return made
        name, description = names[nested[path].origin], nested[path].description
        own = {key: made.pop(key) for key in _OWN if key in made}
        found.setdefault(name, {**({"description": description} if description else {}), **own})
        if made.get("description") == description:
            del made["description"]
        return {**made, "allOf": [{"$ref": name}]} if made else {"$ref": name}

    return part(schema, ""), found


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
    own = not is_published(entry, types)
    schemas = _of_kind(entry, ambiguous, v2=v2) if own else {}
    names = nested_names(entry, ambiguous) if own else {}
    for sub in entry.subresources.values():
        request, response = (sub.request_schema, sub.request_nested), (sub.response_schema, sub.response_nested)
        for part, (schema, nested) in (("Request", request), ("Response", response)):
            name = sub_schema_name(entry, sub, part, types)
            if schema and (types is None or name not in types):
                schema, found = _with_types(entry, schema, nested if own else {}, names)
                schemas[name] = publish(schema)
                schemas |= {inside: publish(tree) for inside, tree in found.items() if inside not in schemas}
    return schemas


def _with_types(
    entry: CatalogEntry, schema: Schema, nested: Mapping[str, NestedType], names: Mapping[str, str]
) -> tuple[Schema, dict[str, Schema]]:
    """A schema as Kubernetes publishes those of its kind, and those of the classes in it."""
    return set_apart(_compiled_in(schema), nested, names) if entry.definition.typed else (schema, {})


def _of_kind(entry: CatalogEntry, ambiguous: frozenset[str], *, v2: bool) -> dict[str, Schema]:
    name = definition_name(entry.gvk)
    names = nested_names(entry, ambiguous)
    schema, found = _with_types(entry, entry.version.schema, entry.version.nested, names)
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
