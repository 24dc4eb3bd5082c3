"""The commands ``oarlock storage export`` and ``import``: objects as YAML out of a store and into one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from oarlock.cli.loading import load_server
from oarlock.cli.quiet import QuietOptions
from oarlock.cli.storage.running import (
    command_line,
    decrypted_with,
    run_operation,
    store_argument,
    url_problems,
)
from oarlock.codec import yaml
from oarlock.codec.yaml import MAX_DOCUMENT_BYTES, split_documents
from oarlock.meta.dataclass import dataclass
from oarlock.registry.served import Served
from oarlock.registry.stored.importing import (
    ExportResult,
    ExportSelection,
    ImportRefused,
    ImportResult,
    ImportSource,
    NumberedTree,
    export_objects,
    import_objects,
)
from oarlock.registry.stored.object_documents import ObjectKinds
from oarlock.registry.stored.records import DefinitionRecords
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, argument, option
from oarlock.server.options.types import BooleanType, PathType, StringListType, StringType
from oarlock.storage.backend import Backend
from oarlock.storage.care.backup_file import as_file_error, whole_file
from oarlock.storage.care.operations import opened
from oarlock.storage.care.snapshot import ReportProgress, must_be_complete
from oarlock.storage.passwords import without_password


@dataclass(frozen=True, kw_only=True, repr=False)
class _Export(QuietOptions):
    url: str = store_argument("The URL of the store.")
    file: Path | None = argument(PathType(), "The file to write. By default stdout.", default=None)
    resources: tuple[str, ...] = option(
        (),
        StringListType("RESOURCES"),
        "Export only these resources: orders.shop.example.com,boats.example.com.",
        flag="resource",
        in_file=False,
    )
    namespace: str = option("", StringType("NAME"), "Export only objects of this namespace.", in_file=False)
    encryption_provider_config: Path | None = option(
        None, PathType(), "Decrypt values as this EncryptionConfiguration says.", in_file=False
    )

    def check(self) -> Iterator[Problem]:
        yield from url_problems("url", self.url, self.file, "the URL first, then the file")


def _export(options: _Export) -> None:
    """Write the objects of a store as YAML, one document each.

    The objects are in their stored version, with uid, status and timestamps, as of one moment. `oarlock storage import`
    reads them. Unreadable objects are named and left out, and the exit code is 1.
    """
    again = f"run `{command_line('export', options.url, options.file or '')}` again"
    result = run_operation(lambda report: _exported(options, report), quiet=options.quiet, interrupted=again)
    shown = without_password(options.url)
    print(f"{result.count} objects of {shown} at revision {result.rev}", file=sys.stderr)
    for line in result.unreadable:
        print(line, file=sys.stderr)
    if result.unreadable_count:
        raise CommandError(f"{result.unreadable_count} objects in {shown} are unreadable and were left out")


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


@dataclass(frozen=True, kw_only=True, repr=False)
class _Import(QuietOptions):
    file: Path = argument(PathType(), "The output of `oarlock storage export`.")
    url: str = store_argument("The URL of the store. It is created if it doesn't exist.")
    server: str = option(
        "",
        StringType("MODULE:ATTRIBUTE|FILE.py"),
        "The APIServer with the kinds of the objects. Needed for a new store. Objects are stored in the versions "
        "that it writes.",
        in_file=False,
    )
    overwrite: bool = option(False, BooleanType(), "Replace existing objects that differ.", in_file=False)
    encryption_provider_config: Path | None = option(
        None, PathType(), "Encrypt values as this EncryptionConfiguration says.", in_file=False
    )

    def check(self) -> Iterator[Problem]:
        yield from url_problems("url", self.url, self.file, "the file first, then the URL")


def _import(options: _Import) -> None:
    """Write objects from YAML into a store, as they were exported.

    Servers may run meanwhile. All objects are checked first: if one can't be stored, or exists and differs, the command
    reports it and writes nothing. Hooks and admission aren't called. Existing equal objects are skipped, so the command
    may be interrupted and run again.
    """
    overwrite = "--overwrite" if options.overwrite else ""
    command = command_line("import", options.file, options.url, overwrite)
    try:
        result = run_operation(
            lambda report: _imported(options, report),
            quiet=options.quiet,
            interrupted=f"run `{command}` again to continue",
        )
    except ImportRefused as error:
        for line in error.lines:
            print(f"{options.file}: {line}")
        raise CommandError(f"nothing of {options.file} was written: see the errors above") from None
    counts = f"{result.created} objects created, {result.replaced} replaced, {result.unchanged} were there already"
    print(f"{without_password(options.url)}: {counts}")


async def _imported(options: _Import, report_progress: ReportProgress) -> ImportResult:
    served = []
    if options.server:
        served = [resource for resource in load_server(options.server).catalog.resources if resource.virtual is None]
    with as_file_error(options.file), open(options.file, "rb") as file:  # noqa: ASYNC230 (this process does nothing else)
        how = Putting(options.url, options.overwrite, options.encryption_provider_config)
        return await put_objects(how, served, lambda: _trees(file), report_progress)


async def _anything(backend: Backend) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Putting:
    """Into which store, and how. `check` is asked before anything is written."""

    url: str
    overwrite: bool
    encryption: Path | None
    check: Callable[[Backend], Awaitable[None]] = _anything


async def put_objects(
    how: Putting,
    served: Sequence[Served],
    read: Callable[[], Iterator[NumberedTree]],
    report_progress: ReportProgress,
) -> ImportResult:
    """Write objects of `served` into a store; without any, of the kinds that the store knows. `read` is called twice.

    Raises `ImportRefused`, and what the store and `check` raise.
    """
    async with opened(how.url, create=bool(served), wrap=decrypted_with(how.encryption)) as backend:
        await must_be_complete(backend)
        await how.check(backend)
        records = DefinitionRecords(backend)
        definitions = [resource.definition for resource in served]
        await records.check(definitions)
        kinds = ObjectKinds(await records.all(), served)
        source = ImportSource(read, partial(records.record, definitions))
        return await import_objects(backend, kinds, source, overwrite=how.overwrite, report_progress=report_progress)


def _trees(file: BinaryIO) -> Iterator[NumberedTree]:
    """The objects in a file of YAML, from its beginning."""
    file.seek(0)
    try:
        for document in split_documents(iter(lambda: file.readline(MAX_DOCUMENT_BYTES + 1), b"")):
            where = f"document {document.number} (line {document.line})"
            try:
                tree, duplicates = yaml.decode(document.data)
            except yaml.DecodeError as error:
                yield NumberedTree(where, None, str(error))
            else:
                yield NumberedTree(where, tree, "; ".join(duplicates))
    except yaml.DecodeError as error:
        yield NumberedTree("the file", None, str(error))


IMPORT = Command("import", _Import, _import)
