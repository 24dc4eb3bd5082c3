"""``oarlock storage check``: looks for damage, or for objects that today's schemas refuse."""

from __future__ import annotations

import asyncio
import logging

from oarlock.cli.loading import load_server
from oarlock.cli.storage.encryption import encryption_of
from oarlock.cli.storage.progress import ProgressLine, shown_progress
from oarlock.cli.storage.running import run_operation
from oarlock.meta.dataclass import dataclass
from oarlock.registry.object_check import broken_objects
from oarlock.registry.schema_check import SchemaCheck, check_schemas
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.groups.storage import ReadStoreOptions
from oarlock.server.options.option import option
from oarlock.server.options.types import StringType
from oarlock.storage.backend import Findings, StorageError
from oarlock.storage.care.opening import opened
from oarlock.storage.care.snapshot import Tell

__all__ = ["CHECK"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Check(ReadStoreOptions):
    schemas: str | None = option(
        None,
        StringType("MODULE:ATTRIBUTE|FILE.py"),
        "Look instead for stored objects that the schemas of this APIServer refuse or can't decode.",
    )


def _check(options: _Check) -> None:
    """Look for damage, or with --schemas for objects that a server would refuse.

    Prints one line for each finding; the exit code is 1 if there is any. Servers may go on running.
    """
    if options.schemas is not None:
        _check_schemas(options, options.schemas)
        return
    damage, broken = run_operation(
        lambda tell: _found(options, tell), quiet=False, interrupted="nothing was changed; run it again"
    )
    for finding in (*damage, *broken):
        print(finding)
    if damage or broken:
        findings = len(damage) + len(broken)
        count = "1 finding" if findings == 1 else f"{findings} findings"
        what = "stop its servers and restore it from a backup" if damage else "repair or delete the objects"
        raise CommandError(f"{count} in {options.shown_storage}: {what}")
    print(f"{options.shown_storage}: sound")


async def _found(options: _Check, tell: Tell) -> tuple[Findings, Findings]:
    """What is wrong with the store, and which objects no server could read."""
    async with opened(options.storage, wrap=encryption_of(options)) as backend:
        damage = await backend.check()
        try:
            broken = await broken_objects(backend, tell)
            return damage, [line for line in broken if line not in damage]  # a store may name them itself
        except StorageError as error:
            return [*damage, str(error)], []


def _check_schemas(options: ReadStoreOptions, server: str) -> None:
    log = logging.getLogger("oarlock.registry")
    level = log.level
    log.setLevel(logging.CRITICAL)  # what it would say of single objects is in their lines
    try:
        with shown_progress() as line:
            refused = asyncio.run(_refused(options, server, line))
    finally:
        log.setLevel(level)
    if refused:
        count = "1 object" if refused == 1 else f"{refused} objects"
        raise CommandError(
            f"{count} in {options.shown_storage} would be refused as they are: repair or delete what is listed"
        )


async def _refused(options: ReadStoreOptions, server: str, line: ProgressLine) -> int:
    """Print what doesn't fit, and a summary for each resource; returns how many objects that are."""
    refused = 0
    served = [one for one in load_server(server).catalog.resources if one.virtual is None]

    def report(text: str) -> None:
        line.clear()
        print(text)

    async with opened(options.storage, wrap=encryption_of(options)) as backend:
        for one in served:
            found = await check_schemas(backend, one, report, lambda progress: line.show(_text(progress)))
            refused += found.refused
            report(f"{found.resource}: {found.refused} of {found.seen} would be refused")
    return refused


def _text(progress: SchemaCheck) -> str:
    return f"{progress.resource}: {progress.seen} of {progress.total} looked at, {progress.refused} would be refused"


CHECK = Command("check", _Check, _check)
