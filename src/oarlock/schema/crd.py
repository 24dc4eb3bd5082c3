"""Reads and writes definitions as dicts in the shape of a CustomResourceDefinition.

`parse` reads one, `print_definition` writes one. What a CRD has no field for is stored under ``x-oarlock-…`` keys, so
``parse(print_definition(x)) == x``, and ``print_definition(parse(d)) == d`` for a dict written by this
module. `export_crd` leaves those keys out, for a cluster. Not part of a definition, and therefore lost: labels and
annotations of the CRD itself, its status, and how versions are converted.
Must not know: classes. See also: `crd_rules`, which validates such a dict.
Source: apiextensions.k8s.io/v1 CustomResourceDefinition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree, copy_json
from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.crd_rules import crd_errors
from oarlock.schema.definition import (
    Column,
    Names,
    ResourceDefinition,
    Scale,
    Schema,
    Subresource,
    VersionDefinition,
)
from oarlock.schema.structural.merge_keys import MERGE_KEY, STRATEGY

__all__ = ["KIND", "DefinitionError", "crd_errors", "export_crd", "parse", "print_definition", "read_definition"]

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"
_OWN = "x-oarlock-"
_NOT_OF_CRDS = frozenset({STRATEGY, MERGE_KEY})


class DefinitionError(ValueError):
    """An invalid definition. `errors` are all errors, each with its path."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(error.message for error in self.errors))


_EXTRAS: tuple[tuple[str, str, Any], ...] = (
    # key without prefix, attribute, what a CRD without the key means
    ("typed", "typed", False),
    ("generation", "generation", True),
    ("unconditional-update", "unconditional_update", False),
    ("create-on-update", "create_on_update", False),
    ("delete-returns", "delete_returns", "status"),
    ("ttl-seconds", "ttl_s", None),
    ("name-rule", "name_rule", "dns-subdomain"),
    ("gc-default", "gc_default", "background"),
)


def parse(tree: Tree) -> ResourceDefinition:
    """Read a definition. DefinitionError with every error that `crd_errors` finds.

    A CRD without ``x-oarlock-…`` keys is served like a custom resource: not `typed`, with the stored version as hub.
    """
    errors = crd_errors(tree)
    if errors:
        raise DefinitionError(errors)
    return read_definition(copy_json(tree))


def read_definition(tree: Tree) -> ResourceDefinition:
    """The definition in a valid dict, with which it shares the schemas."""
    spec = tree["spec"]
    names = spec["names"]
    stored = next(version["name"] for version in spec["versions"] if version["storage"])
    extras = {attribute: spec.get(_OWN + key, default) for key, attribute, default in _EXTRAS}
    return ResourceDefinition(
        group=spec["group"],
        names=Names(
            plural=names["plural"],
            kind=names["kind"],
            singular=names.get("singular") or "",
            list_kind=names.get("listKind") or "",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
        ),
        scope=spec["scope"],
        versions=tuple(_parse_version(version) for version in spec["versions"]),
        hub=spec.get(_OWN + "hub", stored),
        stored_as=stored,
        **extras,
    )


def _parse_version(tree: Tree) -> VersionDefinition:
    subresources = tree.get("subresources") or {}
    return VersionDefinition(
        name=tree["name"],
        schema=tree["schema"]["openAPIV3Schema"],
        served=tree["served"],
        deprecated=tree.get("deprecated") or False,
        deprecation_warning=tree.get("deprecationWarning") or "",
        columns=tuple(_parse_column(column) for column in tree.get("additionalPrinterColumns") or ()),
        selectable=tuple(field["jsonPath"] for field in tree.get("selectableFields") or ()),
        status=subresources.get("status") is not None,
        scale=_parse_scale(subresources.get("scale")),
        subresources=tuple(_parse_subresource(item) for item in tree.get(_OWN + "subresources") or ()),
    )


def _parse_column(tree: Tree) -> Column:
    return Column(
        name=tree["name"],
        json_path=tree["jsonPath"],
        type=tree["type"],
        format=tree.get("format") or "",
        description=tree.get("description") or "",
        priority=tree.get("priority") or 0,
        relative=tree.get(_OWN + "relative", True),
    )


def _parse_scale(tree: Tree | None) -> Scale | None:
    if tree is None:
        return None
    return Scale(tree["specReplicasPath"], tree["statusReplicasPath"], tree.get("labelSelectorPath") or "")


def _parse_subresource(tree: Tree) -> Subresource:
    return Subresource(
        name=tree["name"],
        verbs=tuple(tree["verbs"]),
        kind=GroupVersionKind(tree.get("group") or "", tree["version"], tree["kind"]),
        request_schema=tree.get("requestSchema") or {},
        response_schema=tree.get("responseSchema") or {},
        fields=tuple(tree.get("fields") or ()),
        shared=bool(tree.get("shared")),
    )


def print_definition(definition: ResourceDefinition) -> Tree:
    """The definition as a dict, which `parse` reads back to an equal one. Shares nothing with the definition."""
    names = definition.names
    spec: Tree = {
        "group": definition.group,
        "names": _nonempty(
            {
                "plural": names.plural,
                "singular": names.singular,
                "kind": names.kind,
                "listKind": names.list_kind,
                "shortNames": list(names.short_names),
                "categories": list(names.categories),
            }
        ),
        "scope": definition.scope,
        "versions": [_print_version(version, definition) for version in definition.versions],
    }
    if definition.hub != definition.stored_as:
        spec[_OWN + "hub"] = definition.hub
    for key, attribute, default in _EXTRAS:
        value = getattr(definition, attribute)
        if value != default:
            spec[_OWN + key] = value
    name = f"{names.plural}.{definition.group}"
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def _nonempty(tree: Tree) -> Tree:
    """The non-empty entries: no empty texts, lists or dicts, no false and no zero."""
    return {key: value for key, value in tree.items() if value}


def _print_version(version: VersionDefinition, definition: ResourceDefinition) -> Tree:
    tree: Tree = {
        "name": version.name,
        "served": version.served,
        "storage": version.name == definition.stored_as,
    }
    tree.update(_nonempty({"deprecated": version.deprecated, "deprecationWarning": version.deprecation_warning}))
    tree["schema"] = {"openAPIV3Schema": copy_json(version.schema)}
    subresources: Tree = {}
    if version.status:
        subresources["status"] = {}
    if version.scale is not None:
        subresources["scale"] = _print_scale(version.scale)
    rest = {
        "subresources": subresources,
        "additionalPrinterColumns": [_print_column(column) for column in version.columns],
        "selectableFields": [{"jsonPath": path} for path in version.selectable],
        _OWN + "subresources": [_print_subresource(item) for item in version.subresources],
    }
    return {**tree, **_nonempty(rest)}


def _print_scale(scale: Scale) -> Tree:
    tree = {"specReplicasPath": scale.spec_replicas_path, "statusReplicasPath": scale.status_replicas_path}
    return {**tree, **_nonempty({"labelSelectorPath": scale.label_selector_path})}


def _print_column(column: Column) -> Tree:
    tree = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    rest = {"format": column.format, "description": column.description, "priority": column.priority}
    return {**tree, **_nonempty(rest)} | ({} if column.relative else {_OWN + "relative": False})


def _print_subresource(subresource: Subresource) -> Tree:
    kind = subresource.kind
    tree: Tree = {
        "name": subresource.name,
        "verbs": list(subresource.verbs),
        "version": kind.version,
        "kind": kind.kind,
    }
    rest = {
        "group": kind.group,
        "requestSchema": copy_json(subresource.request_schema),
        "responseSchema": copy_json(subresource.response_schema),
        "fields": list(subresource.fields),
        "shared": subresource.shared,
    }
    return {**tree, **_nonempty(rest)}


def export_crd(definition: ResourceDefinition) -> Tree:
    """The definition as a plain CRD for any cluster, without the ``x-oarlock-…`` keys."""
    return cast("Tree", _without_own(print_definition(definition)))


def _without_own(value: Schema | list[Any] | Any) -> Any:
    if type(value) is dict:
        return {
            key: _without_own(item)
            for key, item in value.items()
            if not key.startswith(_OWN) and key not in _NOT_OF_CRDS
        }
    if type(value) is list:
        return [_without_own(item) for item in value]
    return value
