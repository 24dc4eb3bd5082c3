"""What of a resource a CustomResourceDefinition says, and what it can't say.

The same class can be served here, where all of it counts, and be installed in a cluster, where a part of it does.
Must not know: files, options. See also: ``schema.crd``, which prints a definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from oarlock.registry.served import Hooks, Served
from oarlock.schema.crd import crd_errors, export_crd
from oarlock.schema.definition import Column, ResourceDefinition, VersionDefinition
from oarlock.schema.structural.merge_keys import MERGE_KEY, STRATEGY
from oarlock.schema.structural.proto_numbers import NUMBER

__all__ = ["exported", "missing"]

MOST_SELECTABLE = 8
"""How many selectable fields a version of a CustomResourceDefinition may have."""

_OPTIONS = (
    ("generation", True, "generation=False: a cluster counts generations of every custom resource"),
    ("unconditional_update", False, "unconditional_update: a PUT without resourceVersion is refused by a cluster"),
    ("create_on_update", False, "create_on_update: a PUT to a name that isn't there is a 404 in a cluster"),
    ("delete_returns", "status", "delete_returns='object': a cluster answers a DELETE with a Status"),
    ("ttl_s", None, "ttl_s: objects don't expire in a cluster"),
    (
        "name_rule",
        "dns-subdomain",
        "name_rule: in a cluster every DNS subdomain is a name; say it with a rule on metadata.name",
    ),
    ("gc_default", "background", "gc_default: a cluster deletes dependents in the background"),
    ("finalizers_at", "", "finalizers_at: only metadata.finalizers keep an object in a cluster"),
    ("initializers", (), "initializers: in a cluster objects are seen at once; write an admission webhook"),
    ("rbac", None, "rbac: add ClusterRoles with aggregate-to labels for view, edit and admin"),
    ("delete_collection", True, "delete_collection=False: a cluster lets everything be deleted at once"),
)


def exported(definition: ResourceDefinition) -> dict[str, Any]:
    """The definition as a CustomResourceDefinition: what a cluster has no place for is left out."""
    return export_crd(replace(definition, versions=tuple(_plain(version) for version in definition.versions)))


def _plain(version: VersionDefinition) -> VersionDefinition:
    columns = [_plain_column(column) for column in version.columns if not column.expression]
    return replace(version, columns=tuple(columns), selectable=version.selectable[:MOST_SELECTABLE])


def _plain_column(column: Column) -> Column:
    return replace(column, type="date" if column.type == "age" else column.type)


def missing(served: Served) -> Iterator[str]:
    """What the CustomResourceDefinition of a resource doesn't say, a line each, with what to do instead."""
    definition = served.definition
    yield from _code(served)
    for attribute, plain, text in _OPTIONS:
        if getattr(definition, attribute) != plain:
            yield text
    for version in definition.versions:
        for text in _of_version(version):
            yield f"{version.name}: {text}" if len(definition.versions) > 1 else text
    for error in crd_errors(exported(definition)):
        yield f"a cluster would refuse it: {error.message}"


def _code(served: Served) -> Iterator[str]:
    hooks = served.hooks
    if hooks.default:
        yield "default(): write defaults of the fields, or a mutating admission webhook"
    names = [name for name in ("prepare", "validate", "mark_deleted") if _has(hooks, name)]
    if names:
        yield f"{' and '.join(names)}: write rules, or an admission webhook"
    if hooks.subresources or hooks.parts:
        yield f"subresources of its own: {', '.join(sorted({*hooks.subresources, *hooks.parts}))}"
    if len(served.definition.versions) > 1 and not served.converter.alike:
        yield "conversion between its versions: add spec.conversion with a webhook, or fields are lost"


def _has(hooks: Hooks, name: str) -> bool:
    return getattr(hooks, name) is not None


def _of_version(version: VersionDefinition) -> Iterator[str]:
    for column in version.columns:
        if column.expression:
            yield f"column {column.name}: it is computed, and a cluster's has a jsonPath"
        elif not column.relative:
            yield f"column {column.name}: a cluster shows the date as an age"
    for path in version.selectable[MOST_SELECTABLE:]:
        yield f"selectable field {path}: a cluster takes {MOST_SELECTABLE}"
    if _has_key(version.schema, NUMBER):
        yield "protobuf: a cluster answers with JSON and YAML only"
    if _has_key(version.schema, MERGE_KEY) or _has_key(version.schema, STRATEGY):
        yield "merge keys: a cluster refuses strategic merge patches of custom resources; apply merges lists"


def _has_key(schema: Any, key: str) -> bool:
    if isinstance(schema, dict):
        return key in schema or any(_has_key(value, key) for value in schema.values())
    return isinstance(schema, list) and any(_has_key(value, key) for value in schema)
