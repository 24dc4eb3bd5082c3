"""The commands ``oarlock storage backup``, ``restore`` and ``copy``: a whole store to a file, back, or to another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.cluster_options import ClusterOptions
from oarlock.cli.quiet import QuietOptions
from oarlock.cli.storage.from_cluster import ClusterCopy, copy_from_cluster
from oarlock.cli.storage.running import (
    command_line,
    readable_bytes,
    run_operation,
    store_argument,
    url_problems,
)
from oarlock.meta.dataclass import dataclass
from oarlock.registry.stored.importing import ImportRefused
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, argument, option
from oarlock.server.options.types import BooleanType, PathType, StringListType, StringType, URLType
from oarlock.storage.care.copy import copy
from oarlock.storage.care.operations import backup
from oarlock.storage.care.restore import restore
from oarlock.storage.passwords import without_password


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


@dataclass(frozen=True, kw_only=True, repr=False)
class _Copy(QuietOptions, ClusterOptions):
    source: str = store_argument("The URL of the store to copy; with --from-cluster, of the store to fill.", "FROM")
    target: str = argument(URLType("TO"), "The URL of the store to fill. It must be empty or not exist.", default="")
    from_cluster: bool = option(
        False,
        BooleanType(),
        "Copy the objects of definitions in a cluster instead, which --kubeconfig names: those of the kinds that "
        "--server stores.",
        in_file=False,
    )
    server: str = option(
        "", StringType("MODULE:ATTRIBUTE|FILE.py"), "The APIServer with the kinds of these objects.", in_file=False
    )
    resources: tuple[str, ...] = option(
        (),
        StringListType("RESOURCES"),
        "Copy only these resources: orders.shop.example.com,boats.example.com.",
        flag="resource",
        in_file=False,
    )
    overwrite: bool = option(
        False,
        BooleanType(),
        "Copy into a store that has objects of these kinds, and replace those that differ.",
        in_file=False,
    )
    encryption_provider_config: Path | None = option(
        None, PathType(), "Encrypt values as this EncryptionConfiguration says.", in_file=False
    )

    def check(self) -> Iterator[Problem]:
        yield from url_problems("source", self.source)
        if not self.from_cluster:
            if self.target:
                yield from url_problems("target", self.target)
            else:
                yield Problem("target", "is missing: give the URL of the store to fill")
            for name in ("server", "resources", "overwrite", "encryption_provider_config", "kubeconfig", "context"):
                if getattr(self, name):
                    yield Problem(name, "has no effect without `from_cluster`")
            return
        if self.target:
            yield Problem("target", "has no place beside `from_cluster`: the one URL is that of the store to fill")
        if not self.server:
            yield Problem("from_cluster", "needs to know the kinds: give `server`")


def _copy(options: _Copy) -> None:
    """Copy a store into another of any kind.

    The command continues where it was interrupted. Servers of the source may run during the first run. Stop them for
    the last run, which copies what they have written meanwhile. The copy has a new epoch, and its revisions are above
    the source's, so that clients list again. No server starts on it until the copy is complete.

    With --from-cluster the objects keep uids, timestamps, status and managed fields; neither hooks nor admission see
    them, and nothing is written unless all of them can be stored.
    """
    if options.from_cluster:
        _copy_from_cluster(options)
        return
    command = command_line("copy", options.source, options.target)
    copied = run_operation(
        lambda report: copy(options.source, options.target, command, report),
        quiet=options.quiet,
        interrupted=f"run `{command}` again to continue",
    )
    source, target = without_password(options.source), without_password(options.target)
    print(f"{target}: {copied.keys} keys as {source} had them at revision {copied.from_rev}, now at {copied.rev}")
    if copied.source_moved:
        print(
            f"{source} has been written meanwhile. To copy these writes, too, stop its servers and copy it into a new "
            "store"
        )


def _copy_from_cluster(options: _Copy) -> None:
    asked = ClusterCopy(
        options.kubeconfig,
        options.context,
        options.server,
        options.resources,
        options.source,
        options.overwrite,
        options.encryption_provider_config,
    )
    again = "the store may have some of the objects: run it again with --overwrite"
    shown = without_password(options.source)
    try:
        result = run_operation(lambda report: copy_from_cluster(asked, report), quiet=options.quiet, interrupted=again)
    except ImportRefused as error:
        for line in error.lines:
            print(line)
        raise CommandError(f"nothing was written to {shown}: see the errors above") from None
    counts = f"{result.created} objects created, {result.replaced} replaced, {result.unchanged} were there already"
    print(f"{shown}: {counts}")


COPY = Command("copy", _Copy, _copy)
