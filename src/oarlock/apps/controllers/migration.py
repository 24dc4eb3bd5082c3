"""`StorageMigration`: rewrites the objects of a resource in the version that is stored now, when an object asks for it.

What it does is what ``oarlock storage migrate`` does. When nothing is left in another version, a definition's
``status.storedVersions`` says so. kube-controller-manager's storage-version-migrator-controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime

from oarlock.apps.kinds.apiextensions import CustomResourceDefinition
from oarlock.apps.kinds.storagemigration import (
    MigrationCondition,
    StorageVersionMigration,
    StorageVersionMigrationStatus,
)
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.meta.context import Context
from oarlock.meta.errors import NotFound
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.kinds import GroupResource
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.registry.stored.migration import Progress
from oarlock.storage.backend import StorageError

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
MOST_SHOWN = 5

MigrateResource = Callable[[GroupResource], Awaitable[Progress]]
"""Rewrites the objects of a resource. Raises LookupError for one that isn't stored here, and StorageError."""


class StorageMigrations(StoredCollection[StorageVersionMigration]):
    """A migration is of one resource, and stays so."""

    def validate(
        self, new: StorageVersionMigration, old: StorageVersionMigration | None, ctx: Context
    ) -> Iterator[FieldError]:
        if not new.spec.resource.resource:
            yield Required("spec.resource.resource", "must be set")
        if old is not None and new.spec.resource != old.spec.resource:
            yield Invalid("spec.resource", new.spec.resource.resource, "field is immutable")


class StorageMigration(
    Controller[StorageVersionMigration], name="storage-version-migrator-controller", timeout_s=86_400
):
    """`migrate` is how resources are migrated."""

    _clock: TimerClock

    def __init__(self, migrate: MigrateResource) -> None:
        self._migrate = migrate

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        await super().run(client, clock)

    async def reconcile(self, key: ObjectKey) -> None:
        asked = self.informer.get(key.name)
        if asked is None or _is_over(asked.status):
            return
        resource = GroupResource(asked.spec.resource.group, asked.spec.resource.resource)
        await self._update_condition(key.name, RUNNING, "StorageVersionMigrationInProgress", "")
        try:
            progress = await self._migrate(resource)
        except (LookupError, StorageError) as error:
            await self._update_condition(key.name, FAILED, "StorageVersionMigrationFailed", str(error.args[0]))
            return
        if progress.broken:
            shown = "; ".join(progress.broken[:MOST_SHOWN])
            await self._update_condition(key.name, FAILED, "StorageVersionMigrationFailed", f"can't be read: {shown}")
            return
        await self._trim(resource)
        await self._update_condition(
            key.name, SUCCEEDED, "StorageVersionMigrationSucceeded", f"{progress.rewritten} rewritten"
        )

    async def _trim(self, resource: GroupResource) -> None:
        """Let the definition of a resource forget the versions in which nothing is stored any more."""
        definitions = await self.client.ref(CustomResourceDefinition)
        try:
            definition = await self.client.request("GET", definitions.object(str(resource), ""))
        except NotFound:
            return
        stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
        if (definition.get("status") or {}).get("storedVersions") != stored:
            status = {**(definition.get("status") or {}), "storedVersions": stored}
            await self.client.request(
                "PUT", definitions.object(str(resource), "", "status"), {**definition, "status": status}
            )

    async def _update_condition(self, name: str, kind: str, reason: str, message: str) -> None:
        now = datetime.fromtimestamp(int(self._clock.now()), UTC)

        def change(live: StorageVersionMigration) -> None:
            status = live.status = live.status or StorageVersionMigrationStatus()
            others = [condition for condition in status.conditions if condition.type not in (kind, RUNNING)]
            if kind != RUNNING:
                ended = MigrationCondition(type=RUNNING, status="False", last_transition_time=now, reason=reason)
                others.append(ended)
            condition = MigrationCondition(
                type=kind, status="True", last_transition_time=now, reason=reason, message=message
            )
            status.conditions = [*others, condition]

        try:
            await self.client.change(StorageVersionMigration, name, change, subresource="status")
        except NotFound:
            pass  # it was taken back


def _is_over(status: StorageVersionMigrationStatus | None) -> bool:
    conditions = () if status is None else status.conditions
    return any(condition.type in (SUCCEEDED, FAILED) and condition.status == "True" for condition in conditions)
