"""What a CustomResourceDefinition makes the server serve: a `Served`. Pure.

See also: ``controllers.definitions.serving``, which puts it into the catalog.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, cast

from oarlock.apps.kinds.apiextensions import (
    CustomResourceColumnDefinition,
    CustomResourceDefinition,
    CustomResourceDefinitionVersion,
    CustomResourceSubresourceScale,
)
from oarlock.meta import errors
from oarlock.meta.context import Context
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversion.converter import Converter, NoConversion
from oarlock.registry.served import Hooks, Served
from oarlock.schema.definition import Column, Names, ResourceDefinition, Scale, VersionDefinition

__all__ = ["CannotServe", "Converters", "definition_of_crd", "no_webhooks", "resource_of"]

Converters = Callable[[CustomResourceDefinition], Converter]
"""Makes what converts the objects of a definition with the strategy ``Webhook``. Raises CannotServe."""

TERMINATING = "create not allowed while custom resource definition is terminating"


class CannotServe(Exception):
    """A stored definition that makes no resource. The message says why."""


def no_webhooks(crd: CustomResourceDefinition) -> Converter:
    """The conversion webhooks of a server that asks none."""
    raise CannotServe("this server doesn't convert by webhook")


def resource_of(crd: CustomResourceDefinition, converters: Converters = no_webhooks) -> Served:
    """What `crd` makes the server serve, under its accepted names. Shares the schemas. Raises CannotServe."""
    definition = definition_of_crd(crd)
    conversion = crd.spec.conversion
    converter = NoConversion() if conversion is None or conversion.strategy != "Webhook" else converters(crd)
    hooks = Hooks(prepare=_no_new_objects, threadsafe=True) if crd.metadata.deletion_timestamp else Hooks()
    return Served(definition, converter, hooks)


def definition_of_crd(crd: CustomResourceDefinition) -> ResourceDefinition:
    """`crd` as a definition. Raises CannotServe for one that no server can have accepted.

    One that is being deleted serves the stored version anyway: its objects can be deleted with nothing to convert.
    """
    spec, names = crd.spec, crd.status.accepted_names
    versions = spec.versions or []
    stored = [version.name for version in versions if version.storage]
    if len(stored) != 1:
        raise CannotServe("not exactly one version is the storage version")
    if spec.scope not in ("Namespaced", "Cluster"):
        raise CannotServe(f"spec.scope is {spec.scope!r}, neither Namespaced nor Cluster")
    if not (names.plural and names.kind):
        raise CannotServe("status.acceptedNames has no plural or no kind")
    return ResourceDefinition(
        group=spec.group,
        names=Names(
            plural=names.plural,
            kind=names.kind,
            singular=names.singular,
            list_kind=names.list_kind,
            short_names=tuple(names.short_names),
            categories=tuple(names.categories),
        ),
        scope=cast("Any", spec.scope),
        versions=tuple(map(_version, _versions_of(crd))),
        hub=stored[0],
        stored_as=stored[0],
        typed=False,
    )


def _versions_of(crd: CustomResourceDefinition) -> list[CustomResourceDefinitionVersion]:
    versions = crd.spec.versions or []
    if not crd.metadata.deletion_timestamp:
        return versions
    shown = [copy(version) for version in versions]
    for version in shown:
        version.served = version.served or version.storage
    return shown


def _version(version: CustomResourceDefinitionVersion) -> VersionDefinition:
    schema = None if version.validation is None else version.validation.open_api_v3_schema
    if not isinstance(schema, dict):
        raise CannotServe(f"version {version.name} has no schema")
    below = version.subresources
    return VersionDefinition(
        name=version.name,
        schema=schema,
        served=version.served,
        deprecated=version.deprecated,
        deprecation_warning=version.deprecation_warning or "",
        columns=tuple(map(_column, version.additional_printer_columns)),
        selectable=tuple(field.json_path for field in version.selectable_fields),
        status=below is not None and below.status is not None,
        scale=None if below is None or below.scale is None else _scale(below.scale),
    )


def _column(column: CustomResourceColumnDefinition) -> Column:
    return Column(
        name=column.name,
        json_path=column.json_path,
        type=cast("Any", column.type),
        format=column.format,
        description=column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}",
        priority=column.priority,
    )


def _scale(scale: CustomResourceSubresourceScale) -> Scale:
    return Scale(scale.spec_replicas_path, scale.status_replicas_path, scale.label_selector_path or "")


def _no_new_objects(new: Tree, old: Tree | None, ctx: Context) -> Tree:
    if old is None:
        raise errors.Forbidden(ctx.target.group_resource, new["metadata"].get("name", ""), TERMINATING)
    return new
