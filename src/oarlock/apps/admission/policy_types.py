"""`ObjectTypes`: the types of the objects that a policy is about, by the schemas of what is served.

Source: k8s.io/apiserver ``admission/plugin/policy/validating`` (typechecking), ``cel/openapi/resolver``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from oarlock.endpoints.catalog import Catalog, CatalogEntry
from oarlock.endpoints.openapi.kinds import META
from oarlock.policy.admission.policies.engine import MOST_TYPES, CheckedType
from oarlock.schema.cel.declared import declare
from oarlock.schema.cel.expression import DeclaredVariable
from oarlock.schema.released.published import meta_types
from oarlock.schema.structural.nodes import Node, SchemaError, parse


def checked_entries(catalog: Catalog, spec: Mapping[str, Any]) -> tuple[CatalogEntry, ...]:
    """What the rules of a policy name and is served here, at most `MOST_TYPES`, by group, version and kind.

    Rules with wildcards, and subresources, name nothing.
    """
    found: dict[tuple[str, str, str], CatalogEntry] = {}
    for group, version, resource in _named(spec):
        entry = catalog.find(group, version, resource)
        if entry is not None:
            found[entry.gvk.group, entry.gvk.version, entry.gvk.kind] = entry
            if len(found) == MOST_TYPES:
                break
    return tuple(found[name] for name in sorted(found))


def _named(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = _exact(rule.get("apiGroups")), _exact(rule.get("apiVersions"))
        resources = [
            resource for resource in rule.get("resources") or () if "*" not in resource and "/" not in resource
        ]
        for group in groups:
            for version in versions:
                for resource in sorted(resources):
                    yield group, version, resource


def _exact(names: Sequence[str] | None) -> list[str]:
    given = names or ()
    return [] if any("*" in name for name in given) else sorted(given)


def params_entry(catalog: Catalog, spec: Mapping[str, Any]) -> CatalogEntry | None:
    """What serves the kind of a policy's parameters."""
    kind = spec.get("paramKind") or {}
    name, _, version = str(kind.get("apiVersion", "")).rpartition("/")
    group = catalog.group(name)
    entries = [] if group is None else group.of_version(version)
    return next((entry for entry in entries if entry.gvk.kind == kind.get("kind")), None)


class ObjectTypes:
    """Makes a type of an entry's schema, once. May be used in a thread."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[CatalogEntry, DeclaredVariable | None] = WeakKeyDictionary()
        self._metadata = parse(_resolved(meta_types()[f"{META}ObjectMeta"]))

    def checked(self, entries: Sequence[CatalogEntry]) -> list[CheckedType]:
        """The types of those that have one."""
        return [CheckedType(entry.gvk, variable) for entry in entries if (variable := self.variable(entry)) is not None]

    def variable(self, entry: CatalogEntry) -> DeclaredVariable | None:
        """An object as a variable; None where nothing is known of it."""
        if entry not in self._made:
            self._made[entry] = self._variable(entry)
        return self._made[entry]

    def _variable(self, entry: CatalogEntry) -> DeclaredVariable | None:
        try:
            node = parse(entry.version.schema)
        except SchemaError:
            return None
        if not node.properties:
            return None
        text = Node(type="string")
        node.properties = {**node.properties, "apiVersion": text, "kind": text, "metadata": self._metadata}
        decl = declare(node, root=True, path=entry.gvk.kind)
        return None if decl is None else DeclaredVariable(decl.type, decl)


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of the types that every server has, with what it refers to in place."""
    named = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), None)
    if named is not None:
        return _resolved(meta_types()[named])
    made = dict(schema)
    if "properties" in schema:
        made["properties"] = {name: _resolved(child) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            made[key] = _resolved(schema[key])
    return made
