"""The commands ``oarlock storage compact``, ``stats``, ``backup``, ``restore``, ``check`` and ``migrate``.

The last two read every object with the kinds of a server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from oarlock.cli.loading import ServerArgument, load_server
from oarlock.cli.progress import ProgressLine, shown_progress
from oarlock.cli.quiet import QuietOptions
from oarlock.cli.storage.running import (
    command_line,
    encryption_of,
    is_url,
    readable_bytes,
    run_operation,
    store_argument,
    url_problems,
)
from oarlock.meta.dataclass import dataclass
from oarlock.registry.stored.migration import Progress, migrate
from oarlock.registry.stored.object_documents import ObjectFindings, broken_objects
from oarlock.registry.stored.schema_check import SchemaCheck, check_schemas
from oarlock.server.command import CommandError
from oarlock.server.config import ServerConfig
from oarlock.server.files.store_mark import IF_NOT_RESTORED, missing_history
from oarlock.server.options.commands import Command
from oarlock.server.options.groups.storage import ReadStoreOptions, StoreOptions
from oarlock.server.options.option import ConfigError, Problem, argument, option
from oarlock.server.options.types import IntegerType, PathType, StringType
from oarlock.storage.backend import Findings, StorageError
from oarlock.storage.care.operations import KeyGroup, backup, compact, opened, stats
from oarlock.storage.care.restore import restore
from oarlock.storage.care.snapshot import ReportProgress
from oarlock.storage.passwords import without_password


@dataclass(frozen=True, kw_only=True, repr=False)
class _Compact(StoreOptions):
    by_position = ("storage",)

    revision: int | None = option(
        None, IntegerType(minimum=1), "Remove history before this revision. By default the current one."
    )


def _compact(options: _Compact) -> None:
    """Remove history before a revision.

    Live objects are kept. Watches and pages from before it are answered with 410, and their clients list again.
    """
    compacted, current = asyncio.run(compact(options.storage, options.revision))
    print(f"{options.shown_storage}: compacted at revision {compacted}, current is {current}")


COMPACT = Command("compact", _Compact, _compact)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Stats(QuietOptions):
    url: str = store_argument("The URL of the store.")

    def check(self) -> Iterator[Problem]:
        yield from url_problems("url", self.url)


def _stats(options: _Stats) -> None:
    """Count what is in a store.

    Prints the keys and bytes of each resource, and the state of the store: revisions, epoch, size on disk.
    """
    again = f"nothing was changed; run `{command_line('stats', options.url)}` again"
    found = run_operation(lambda report: stats(options.url, report), quiet=options.quiet, interrupted=again)
    for line in _table(found.groups):
        print(line)
    print(f"revision: {found.rev}, compacted at {found.compact_rev}")
    print(f"history: at most {found.rev - found.compact_rev} changes")
    print(f"epoch: {found.epoch}")
    print(f"on disk: {'not known' if found.disk_bytes is None else readable_bytes(found.disk_bytes)}")


def _table(groups: Sequence[KeyGroup]) -> Iterator[str]:
    total = KeyGroup("all", sum(group.keys for group in groups), sum(group.bytes for group in groups))
    total.largest = max((group.largest for group in groups), default=0)
    rows = [
        (_name(group.prefix), str(group.keys), readable_bytes(group.bytes), readable_bytes(group.largest))
        for group in (*groups, total)
    ]
    rows.insert(0, ("resource", "keys", "values", "largest"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join((row[0].ljust(widths[0]), *cells))


def _name(prefix: str) -> str:
    """``orders.shop.example.com`` for the prefix of a resource's keys."""
    parts = prefix.split("/")
    if prefix.startswith("/registry/") and len(parts) == 5:
        return f"{parts[3]}.{parts[2]}".rstrip(".")
    return prefix


STATS = Command("stats", _Stats, _stats)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Check(QuietOptions, ReadStoreOptions):
    by_position = ("storage",)

    schemas: str | None = option(
        None,
        StringType("MODULE:ATTRIBUTE|FILE.py"),
        "Check instead for stored objects that the schemas of this APIServer refuse or can't decode.",
    )
    data_dir: Path | None = option(
        None, PathType("DIR"), "The data directory of the servers, with their notes about the store's last state."
    )

    def __post_init__(self) -> None:
        if self.schemas is not None:
            _must_not_be_swapped("schemas", self.schemas, self.storage)
        elif self.storage.endswith(".py"):
            text = f"{self.storage!r} isn't the URL of a store: write `schemas` before it, or oarlock check"
            raise ConfigError([text], (Problem("storage", text),))
        super().__post_init__()


def _must_not_be_swapped(field: str, server: str, url: str) -> None:
    """Raises one `ConfigError` when a server and a URL stand in each other's place."""
    if is_url(server) and "://" in server and not is_url(url):
        text = f"{server!r} is the URL of a store, and {url!r} isn't: write the server first, then the URL"
        raise ConfigError([text], (Problem(field, text),))


@dataclass(frozen=True, slots=True)
class _CheckResult:
    """What is wrong: with the store, with what servers have seen of it, with objects."""

    damage: Findings
    missing: str
    objects: ObjectFindings

    def advice(self, options: _Check) -> Iterator[str]:
        """What to do, of each."""
        if self.damage:
            yield "stop its servers and restore it from a backup"
        if self.missing:
            yield f"{IF_NOT_RESTORED[0].lower()}{IF_NOT_RESTORED[1:]}"
        if self.objects.broken > self.objects.undecryptable:
            yield "repair or delete the objects"
        if self.objects.undecryptable:
            yield (
                f"compare the providers and secrets in {options.encryption_provider_config} with those that the "
                "objects were written with, before anything is repaired, deleted or restored"
            )
        if self.objects.sealed:
            names = ", ".join(f"{key} ({count} objects)" for key, count in sorted(self.objects.sealed.items()))
            file = options.encryption_provider_config
            yield f"add the missing keys to {file} as further keys: {names}; these objects aren't damaged"


def _check(options: _Check) -> None:
    """Check a store for damage, or with --schemas for objects that a server would refuse.

    Prints one line for each problem. The exit code is 1 if there is one. Servers may run meanwhile.
    """
    if options.schemas is not None:
        _check_schemas(options, options.schemas)
        return
    found = run_operation(
        lambda report: _found(options, report), quiet=options.quiet, interrupted="nothing was changed; run it again"
    )
    lines = [*found.damage, *([found.missing] if found.missing else []), *found.objects.lines]
    for line in lines:
        print(line)
    if lines:
        findings = len(found.damage) + bool(found.missing) + found.objects.broken + sum(found.objects.sealed.values())
        count = "1 finding" if findings == 1 else f"{findings} findings"
        raise CommandError(f"{count} in {options.shown_storage}: {'; '.join(found.advice(options))}")
    print(f"{options.shown_storage}: sound")


async def _found(options: _Check, report_progress: ReportProgress) -> _CheckResult:
    """What is wrong with the store, and which objects no server could read."""
    mark = ServerConfig(storage=options.storage, data_dir=options.data_dir).store_mark
    async with opened(options.storage, wrap=encryption_of(options)) as backend:
        damage = await backend.check()
        missing = await missing_history(mark, backend)
        try:
            objects = await broken_objects(backend, report_progress)
        except StorageError as error:
            return _CheckResult([*damage, str(error)], missing, ObjectFindings())
        objects.forget(damage)  # a store may name them itself
        return _CheckResult(damage, missing, objects)


def _check_schemas(options: _Check, server: str) -> None:
    log = logging.getLogger("oarlock.registry")
    level = log.level
    log.setLevel(logging.CRITICAL)  # what it would say of single objects is in their lines
    try:
        with shown_progress(quiet=options.quiet) as line:
            refused = asyncio.run(_refused(options, server, line))
    finally:
        log.setLevel(level)
    if refused:
        count = "1 object" if refused == 1 else f"{refused} objects"
        raise CommandError(
            f"{count} in {options.shown_storage} would be refused: repair or delete the objects listed above"
        )


async def _refused(options: ReadStoreOptions, server: str, line: ProgressLine) -> int:
    """Print what doesn't fit, and a summary for each resource; returns how many objects that are."""
    refused = 0
    served = [resource for resource in load_server(server).catalog.resources if resource.virtual is None]

    def report(text: str) -> None:
        line.clear()
        print(text)

    async with opened(options.storage, wrap=encryption_of(options)) as backend:
        for resource in served:
            found = await check_schemas(backend, resource, report, lambda progress: line.show(_checked_text(progress)))
            refused += found.refused
            report(f"{found.resource}: {found.refused} of {found.seen} would be refused")
    return refused


def _checked_text(progress: SchemaCheck) -> str:
    return f"{progress.resource}: {progress.seen} of {progress.total} checked, {progress.refused} would be refused"


CHECK = Command("check", _Check, _check)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Migrate(ServerArgument, QuietOptions, ReadStoreOptions):
    """Whose store it is, and where."""

    by_position = ("storage",)

    def __post_init__(self) -> None:
        _must_not_be_swapped("server", self.server, self.storage)
        super().__post_init__()


def _migrate(options: _Migrate) -> None:
    """Rewrite objects that are stored in an old version, or encrypted with an old key.

    Afterwards all objects are stored in the version that the server writes, encrypted with the first provider. Servers
    may run meanwhile if all of them know that version. The command may be interrupted and run again. The exit code is 1
    if unreadable objects remain.
    """
    with shown_progress(quiet=options.quiet) as line:
        unreadable = asyncio.run(_migrated(options, line))
    for finding in unreadable:
        print(finding)
    if unreadable:
        count = "1 object" if len(unreadable) == 1 else f"{len(unreadable)} objects"
        raise CommandError(
            f"{count} in {options.shown_storage} can't be read: remove or repair what is listed above, and run the "
            "command again"
        )


async def _migrated(options: _Migrate, line: ProgressLine) -> list[str]:
    unreadable: list[str] = []
    served = [resource for resource in load_server(options.server).catalog.resources if resource.virtual is None]
    async with opened(options.storage, wrap=encryption_of(options)) as backend:
        for resource in served:
            result = await migrate(backend, resource, lambda progress: line.show(_migrated_text(progress)))
            line.clear()
            encrypted = f", {result.encrypted} of them encrypted anew" if result.encrypted else ""
            summary = f"{result.rewritten} of {result.seen} rewritten as {resource.definition.stored_as}{encrypted}"
            print(f"{result.resource}: {summary}")
            unreadable += result.broken
    return unreadable


def _migrated_text(progress: Progress) -> str:
    again = " again" if progress.passes > 1 else ""
    text = f"{progress.seen} of {progress.total} checked{again}, {progress.rewritten} rewritten"
    return f"{progress.resource}: {text}"


MIGRATE = Command("migrate", _Migrate, _migrate)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Backup(QuietOptions):
    url: str = store_argument("The URL of the store.")
    file: Path = argument(PathType(), "The file to write. An existing file is replaced when the new one is complete.")

    def check(self) -> Iterator[Problem]:
        yield from url_problems("url", self.url, self.file, "the URL first, then the file")


def _backup(options: _Backup) -> None:
    """Write a store to a file.

    The file contains the state of the store at one moment, also while servers write. It can be restored into a store of
    any kind. Objects are as in the store: values that aren't encrypted there aren't encrypted in the file.
    """
    again = f"nothing was written; run `{command_line('backup', options.url, options.file)}` again"
    work = run_operation(
        lambda report: backup(options.url, options.file, report), quiet=options.quiet, interrupted=again
    )
    size = readable_bytes(options.file.stat().st_size)
    print(f"{options.file}: {work.keys} keys of {without_password(options.url)} at revision {work.rev}, {size}")


BACKUP = Command("backup", _Backup, _backup)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Restore(QuietOptions):
    file: Path = argument(PathType(), "The output of `oarlock storage backup`.")
    url: str = store_argument("The URL of the store to fill. It must be empty or not exist.")

    def check(self) -> Iterator[Problem]:
        yield from url_problems("url", self.url, self.file, "the file first, then the URL")


def _restore(options: _Restore) -> None:
    """Fill an empty store from a backup.

    The whole file is checked first. The restored store has a new epoch, and its revisions are above those of the old
    store, so that clients of the old store list again. No server starts on it until the restore is complete.
    """
    command = command_line("restore", options.file, options.url)
    restored = run_operation(
        lambda report: restore(options.file, options.url, command, report),
        quiet=options.quiet,
        interrupted=f"run `{command}` again to continue",
    )
    expired = f", {restored.expired} had expired" if restored.expired else ""
    was = f"as of revision {restored.from_rev}, now at revision {restored.rev}"
    print(f"{without_password(options.url)}: {restored.keys} keys{expired}, {was}")


RESTORE = Command("restore", _Restore, _restore)
