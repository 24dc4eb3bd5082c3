"""CustomResourceDefinitions for tests with clients: a small one, and bundles as large as those of real products."""

from __future__ import annotations

from typing import Any

Tree = dict[str, Any]


def definition(group: str, kind: str, spec: Tree, **of_the_version: Any) -> Tree:
    """A definition of one version, with a spec of these properties and any status."""
    plural = f"{kind.lower()}s"
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": kept}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **of_the_version}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


BERTHS = definition(
    "harbour.example.com", "Berth", {"depth": {"type": "integer", "minimum": 1}}, subresources={"status": {}}
)


def bundle(group: str, kinds: int, fields: int) -> list[Tree]:
    """Definitions with many nested fields and long descriptions, as certificate managers and meshes have them."""
    return [definition(group, f"Part{number}", _fields(fields, 3)) for number in range(kinds)]


def _fields(count: int, depth: int) -> Tree:
    made: Tree = {}
    for number in range(count):
        text = {"type": "string", "maxLength": 253, "description": f"Field {number} says what it is for. " * 4}
        if depth and number % 10 == 0:
            inner: Tree = {"type": "object", "properties": _fields(count // 4, depth - 1)}
            made[f"field{number}"] = {"type": "array", "items": inner} if number % 20 else inner
        else:
            made[f"field{number}"] = text
    return made
