"""``oarlock storage export``: writes objects of a store as YAML."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from oarlock.cli.storage.encryption import decrypted_with
from oarlock.cli.storage.running import QuietOptions, command_line, run_operation, store_argument, url_problems
from oarlock.codec import yaml
from oarlock.meta.dataclass import dataclass
from oarlock.registry.stored.importing import ExportResult, ExportSelection, export_objects
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, argument, option
from oarlock.server.options.types import PathType, StringListType, StringType
from oarlock.storage.care.opening import opened
from oarlock.storage.care.snapshot import ReportProgress
from oarlock.storage.care.whole_file import as_file_error, whole_file
from oarlock.storage.passwords import without_password

__all__ = ["EXPORT"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Export(QuietOptions):
    url: str = store_argument("The store, as for servers.")
    file: Path | None = argument(PathType(), "Where to; to stdout unless given.", default=None)
    resources: tuple[str, ...] = option(
        (),
        StringListType("RESOURCES"),
        "Only these: orders.shop.example.com,boats.example.com.",
        flag="resource",
        in_file=False,
    )
    namespace: str = option("", StringType("NAME"), "Only objects of this namespace.", in_file=False)
    encryption_provider_config: Path | None = option(
        None, PathType(), "Decrypt values as this EncryptionConfiguration says.", in_file=False
    )

    def check(self) -> Iterator[Problem]:
        yield from url_problems("url", self.url, self.file, "the URL first, then the file")


def _export(options: _Export) -> None:
    """Write objects of a store as YAML, a document each.

    They have uid, status and timestamps, in the version they are stored in, as of one moment; `oarlock storage import`
    reads them. An object that can't be read is named, the others are exported, and the exit code is 1.
    """
    again = f"run `{command_line('export', options.url, options.file or '')}` again"
    result = run_operation(lambda report: _exported(options, report), quiet=options.quiet, interrupted=again)
    shown = without_password(options.url)
    print(f"{result.count} objects of {shown} at revision {result.rev}", file=sys.stderr)
    for line in result.unreadable:
        print(line, file=sys.stderr)
    if result.unreadable_count:
        raise CommandError(f"{result.unreadable_count} objects in {shown} can't be read, and were left out")


async def _exported(options: _Export, report_progress: ReportProgress) -> ExportResult:
    selection = ExportSelection(options.resources, options.namespace)
    async with opened(options.url, wrap=decrypted_with(options.encryption_provider_config)) as backend:
        with ExitStack() as stack:
            if options.file is None:
                stack.enter_context(as_file_error(Path("stdout")))
                put = _writes(sys.stdout.buffer.write)
                stack.callback(sys.stdout.buffer.flush)
            else:
                put = _writes(stack.enter_context(whole_file(options.file)).write)
            return await export_objects(backend, selection, put, report_progress)


def _writes(write: Callable[[bytes], object]) -> Callable[[Any], None]:
    def put(tree: Any) -> None:
        write(b"---\n" + yaml.encode(tree))

    return put


EXPORT = Command("export", _Export, _export)
