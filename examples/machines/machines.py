"""Between the inventory and Kubernetes' clients: rows become machines, versions become resourceVersions, and so on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from oarlock import (
    Channels,
    Context,
    ListOptions,
    ObjectMeta,
    Page,
    VirtualCollection,
    WatchOptions,
    errors,
    subresource,
)

from .api.v1 import Machine, MachineSpec, MachineStatus
from .inventory import Changed, Forgotten, Inventory, Missing, Row, Taken

Command = list[str]  # below a method called list, list[str] would mean that method
EVERYTHING = 1_000_000
KINDS = {"insert": "ADDED", "update": "MODIFIED", "delete": "DELETED"}


class Machines(VirtualCollection[Machine]):
    """Every verb, and what else a machine can do."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    async def get(self, name: str, ctx: Context) -> Machine | None:
        row = await self._inventory.find(name)
        return None if row is None else to_machine(row)

    async def list(self, ctx: Context, options: ListOptions) -> Page[Machine]:
        """A page begins behind a name. All pages have the version of the first, so that a watch misses nothing."""
        version, _, after = options.continue_token.partition(":")
        limit = options.limit or EVERYTHING
        rows, last = await self._inventory.page(after, limit)
        version = version or str(last)
        more = f"{version}:{rows[-1].hostname}" if len(rows) == limit else ""
        return Page([to_machine(row) for row in rows], version, more)

    async def create(self, new: Machine, ctx: Context) -> Machine:
        try:
            return to_machine(await self._inventory.add(to_row(new)))
        except Taken:
            raise errors.AlreadyExists from None

    async def update(self, new: Machine, expected_version: str, ctx: Context) -> Machine:
        """`expected_version` is what the client has seen, empty when it doesn't mind."""
        try:
            return to_machine(await self._inventory.change(to_row(new), int(expected_version or 0) or None))
        except Changed:
            raise errors.Conflict from None
        except Missing:
            raise errors.NotFound from None

    async def delete(self, name: str, ctx: Context) -> Machine | None:
        row = await self._inventory.remove(name)
        return None if row is None else to_machine(row)

    async def watch(self, ctx: Context, options: WatchOptions) -> AsyncIterator[tuple[str, Machine]]:
        """What happened after a version, for ever. Who asks for what is forgotten is told to list again: 410."""
        seen = int(options.resource_version or 0)
        while True:
            try:
                changes = await self._inventory.changes(seen)
            except Forgotten as error:
                raise errors.Expired(f"too old resource version: {seen} ({error.oldest})") from None
            for change in changes:
                yield KINDS[change.op], to_machine(change.row)
                seen = change.row.version
            if not changes:
                await self._inventory.wait()

    @subresource("reboot", method="POST")
    async def _reboot(self, name: str, ctx: Context) -> Machine:
        """An action: nothing is sent, the machine comes back."""
        try:
            return to_machine(await self._inventory.reboot(name))
        except Missing:
            raise errors.NotFound from None

    @subresource("console")
    async def _console(self, name: str, parent: Machine, *, follow: bool = False) -> AsyncIterator[bytes]:
        """A line for every start so far, and for those to come."""
        for number in range(parent.status.boots):
            yield f"{name} booted for the {number + 1}. time\n".encode()
        boots = parent.status.boots
        while follow:
            await self._inventory.wait()
            row = await self._inventory.find(name)
            if row is None:
                return
            for number in range(boots, row.boots):
                yield f"{name} booted for the {number + 1}. time\n".encode()
            boots = row.boots

    @subresource("shell", connect=True)
    async def _shell(self, parent: Machine, channels: Channels, *, command: Command = []) -> int:  # noqa: B006
        """What a real adapter would do over SSH."""
        if not parent.spec.powered:
            raise errors.BadRequest(f"{parent.metadata.name} is off")
        match command:
            case ["nproc"]:
                await channels.stdout.write(f"{parent.spec.cores}\n".encode())
            case ["cat"]:
                async for data in channels.stdin:
                    await channels.stdout.write(data)
            case _:
                await channels.stderr.write(f"{' '.join(command)}: command not found\n".encode())
                return 127
        return 0


def to_machine(row: Row) -> Machine:
    """What the inventory doesn't know but was asked to keep comes back as it was."""
    kept: dict[str, Any] = json.loads(row.notes.get("metadata", "{}"))
    return Machine(
        metadata=ObjectMeta(
            name=row.hostname,
            resource_version=str(row.version),
            uid=row.notes.get("uid", ""),
            creation_timestamp=kept.get("created") and datetime.fromisoformat(kept["created"]),
            labels=kept.get("labels", {}),
            annotations=kept.get("annotations", {}),
            field_owners=row.notes.get("owners", ""),
        ),
        spec=MachineSpec(rack=row.rack, cores=row.cores, powered=row.powered),
        status=MachineStatus(boots=row.boots),
    )


def to_row(machine: Machine) -> Row:
    """Labels, annotations and who owns which field (`field_owners`) are put into the notes."""
    metadata, spec = machine.metadata, machine.spec
    created = metadata.creation_timestamp.isoformat() if metadata.creation_timestamp else None
    kept = {"created": created, "labels": metadata.labels, "annotations": metadata.annotations}
    notes = {"uid": metadata.uid, "metadata": json.dumps(kept), "owners": metadata.field_owners}
    return Row(metadata.name, spec.rack, spec.cores, spec.powered, notes=notes)
