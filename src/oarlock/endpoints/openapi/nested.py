"""The classes inside of declared kinds, as types of their own: ``com.example.wardle.v1.FlunderSpec``.

Generated clients have a class for each. A name that two classes of a group and version have is that of neither: each
is called after the kind it is in.
Must not know: operations, documents. See also: `kinds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.openapi.naming import definition_name
from oarlock.endpoints.openapi.shared_types import is_published
from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.definition import NestedType, Schema
from oarlock.schema.released.published import PublishedTypes

__all__ = ["ambiguous_names", "nested_names", "set_apart"]

_OWN = ("type", "properties", "required")
"""What a class says; the rest is said of the field that has it."""
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def ambiguous_names(entries: Iterable[CatalogEntry], types: PublishedTypes | None) -> frozenset[str]:
    """The names that more than one class has in a group and version, whose `entries` these are."""
    origins: dict[str, set[str]] = {}
    for entry in entries:
        for kind in (entry.gvk.kind, entry.list_kind):
            origins.setdefault(kind, set()).add("kind")
        for nested in () if is_published(entry, types) else entry.version.nested.values():
            known = origins.setdefault(nested.name, set())
            known.add(nested.origin)
            name = definition_name(GroupVersionKind(entry.gvk.group, entry.gvk.version, nested.name))
            if types is not None and name in types:
                known.add("release")
    return frozenset(name for name, found in origins.items() if len(found) > 1)


def nested_names(entry: CatalogEntry, ambiguous: frozenset[str]) -> dict[str, str]:
    """The definition names of the classes in a kind, by their paths."""
    by_origin: dict[str, str] = {}
    for nested in entry.version.nested.values():
        if nested.origin not in by_origin:
            by_origin[nested.origin] = _free_name(entry, nested, ambiguous, by_origin)
    return {path: by_origin[nested.origin] for path, nested in entry.version.nested.items()}


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
    """The schema with references to the classes in it, and the schemas of those by name."""
    found: dict[str, Schema] = {}

    def part(tree: Schema, path: str) -> Schema:
        made = {**tree}
        if "properties" in tree:
            made["properties"] = {name: part(field, f"{path}.{name}") for name, field in tree["properties"].items()}
        for key in ("items", "additionalProperties"):
            if isinstance(tree.get(key), dict):
                made[key] = part(tree[key], f"{path}[]")
        if path not in names or made.get("type") != "object" or made.get(_PRESERVE):
            return made
        description = nested[path].description
        own = {key: made.pop(key) for key in _OWN if key in made}
        found.setdefault(names[path], {**({"description": description} if description else {}), **own})
        if made.get("description") == description:
            del made["description"]
        return {**made, "allOf": [{"$ref": names[path]}]} if made else {"$ref": names[path]}

    return part(schema, ""), found
