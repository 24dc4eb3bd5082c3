"""``storagemigration.k8s.io``: asks that the objects of a resource be rewritten in the version that is stored now.

Source: Kubernetes API reference, StorageVersionMigration v1. See also: ``controllers.migration``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from oarlock.apps.kinds.common.columns import AGE
from oarlock.apps.kinds.meta import Text
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import ListMap, NullIfAbsent, OmitEmpty, PatchMerge
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model


class MigratedResource(Model):
    """A resource, whatever its version."""

    group: Text = ""
    resource: str = ""


class StorageVersionMigrationSpec(Model):
    """What is to be rewritten."""

    resource: MigratedResource = MigratedResource()


class MigrationCondition(Model):
    """Running, Succeeded or Failed."""

    type: str
    status: str
    observed_generation: Annotated[int, OmitEmpty] = 0
    last_transition_time: Annotated[datetime | None, NullIfAbsent] = None
    reason: str = ""
    message: str = ""


class StorageVersionMigrationStatus(Model):
    """How far the migration is."""

    conditions: Annotated[list[MigrationCondition], OmitEmpty, ListMap("type"), PatchMerge("type")] = []
    resource_version: Text = ""


class StorageVersionMigration(
    Resource,
    group="storagemigration.k8s.io",
    version="v1",
    scope="Cluster",
    generation=False,
    status_subresource=True,
    columns=[
        Column("Resource", expression="self.spec.resource.resource + '.' + self.spec.resource.?group.orValue('')"),
        AGE,
    ],
):
    """A migration, which is carried out once."""

    spec: StorageVersionMigrationSpec = StorageVersionMigrationSpec()
    status: StorageVersionMigrationStatus | None = None
