"""``oarlock storage migrate``: rewrites what is stored in old versions, or encrypted with an old key."""

from __future__ import annotations

import asyncio

from oarlock.cli.loading import ServerArgument, load_server
from oarlock.cli.storage.encryption import encryption_of
from oarlock.cli.storage.progress import ProgressLine, shown_progress
from oarlock.meta.dataclass import dataclass
from oarlock.registry.stored.migration import Progress, migrate
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.groups.storage import ReadStoreOptions
from oarlock.storage.care.opening import opened

__all__ = ["MIGRATE"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Migrate(ServerArgument, ReadStoreOptions):
    """Whose store it is, and where."""

    by_position = ("storage",)


def _migrate(options: _Migrate) -> None:
    """Rewrite what is stored in an old version, or encrypted with an old key.

    It is then in the version that the server writes, and encrypted with the first provider. Servers may go on running,
    if all of them know that version. What is done stays done when this is stopped; run it again for the rest. The exit
    code is 1 if objects remain that can't be read.
    """
    with shown_progress() as line:
        unreadable = asyncio.run(_migrated(options, line))
    for finding in unreadable:
        print(finding)
    if unreadable:
        count = "1 object" if len(unreadable) == 1 else f"{len(unreadable)} objects"
        raise CommandError(
            f"{count} in {options.shown_storage} can't be read: remove or repair what is listed, and run this again"
        )


async def _migrated(options: _Migrate, line: ProgressLine) -> list[str]:
    unreadable: list[str] = []
    served = [resource for resource in load_server(options.server).catalog.resources if resource.virtual is None]
    async with opened(options.storage, wrap=encryption_of(options)) as backend:
        for resource in served:
            result = await migrate(backend, resource, lambda progress: line.show(_text(progress)))
            line.clear()
            encrypted = f", {result.encrypted} of them encrypted anew" if result.encrypted else ""
            summary = f"{result.rewritten} of {result.seen} rewritten as {resource.definition.stored_as}{encrypted}"
            print(f"{result.resource}: {summary}")
            unreadable += result.broken
    return unreadable


def _text(progress: Progress) -> str:
    again = " again, to be sure" if progress.passes > 1 else ""
    text = f"{progress.seen} of {progress.total} looked at{again}, {progress.rewritten} rewritten"
    return f"{progress.resource}: {text}"


MIGRATE = Command("migrate", _Migrate, _migrate)
