"""``oarlock storage import``: writes objects from YAML into a store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from oarlock.cli.loading import load_server
from oarlock.cli.storage.encryption import decrypted_with
from oarlock.cli.storage.running import QuietOptions, command_line, run_operation, store_argument, url_problems
from oarlock.codec import yaml
from oarlock.codec.yaml_documents import MAX_DOCUMENT_BYTES, split_documents
from oarlock.meta.dataclass import dataclass
from oarlock.registry.stored.importing import ImportRefused, ImportResult, ImportSource, NumberedTree, import_objects
from oarlock.registry.stored.object_documents import ObjectKinds
from oarlock.registry.stored.records import DefinitionRecords
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, argument, option
from oarlock.server.options.types import BooleanType, PathType, StringType
from oarlock.storage.care.opening import opened
from oarlock.storage.care.snapshot import ReportProgress
from oarlock.storage.care.unfinished import must_be_complete
from oarlock.storage.care.whole_file import as_file_error
from oarlock.storage.passwords import without_password

__all__ = ["IMPORT"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Import(QuietOptions):
    file: Path = argument(PathType(), "What `oarlock storage export` wrote.")
    url: str = store_argument("The store; it is made if it isn't there.")
    server: str = option(
        "",
        StringType("MODULE:ATTRIBUTE|FILE.py"),
        "The APIServer whose kinds they are: needed for a new store. Objects are stored in the versions it writes.",
        in_file=False,
    )
    overwrite: bool = option(False, BooleanType(), "Replace objects that are there and differ.", in_file=False)
    encryption_provider_config: Path | None = option(
        None, PathType(), "Encrypt values as this EncryptionConfiguration says.", in_file=False
    )

    def check(self) -> Iterator[Problem]:
        yield from url_problems("url", self.url, self.file, "the file first, then the URL")


def _import(options: _Import) -> None:
    """Write objects from YAML into a store, as they were when they were exported.

    Servers may run. All objects are looked at first: if one can't be stored, or is there already and differs, that is
    told and nothing is written. Neither hooks nor admission are asked. What is there already is left alone, so it may
    be interrupted and run again.
    """
    overwrite = "--overwrite" if options.overwrite else ""
    command = command_line("import", options.file, options.url, overwrite)
    try:
        result = run_operation(
            lambda report: _imported(options, report),
            quiet=options.quiet,
            interrupted=f"run `{command}` again, it goes on where it was",
        )
    except ImportRefused as error:
        for line in error.lines:
            print(f"{options.file}: {line}")
        raise CommandError(f"nothing of {options.file} was written: see above") from None
    counts = f"{result.created} objects created, {result.replaced} replaced, {result.unchanged} were there already"
    print(f"{without_password(options.url)}: {counts}")


async def _imported(options: _Import, report_progress: ReportProgress) -> ImportResult:
    served = []
    if options.server:
        served = [resource for resource in load_server(options.server).catalog.resources if resource.virtual is None]
    with as_file_error(options.file), open(options.file, "rb") as file:  # noqa: ASYNC230 (this process does nothing else)
        wrap = decrypted_with(options.encryption_provider_config)
        async with opened(options.url, create=bool(served), wrap=wrap) as backend:
            await must_be_complete(backend)
            records = DefinitionRecords(backend)
            definitions = [resource.definition for resource in served]
            await records.check(definitions)
            kinds = ObjectKinds(await records.all(), served)
            source = ImportSource(lambda: _trees(file), partial(records.record, definitions))
            return await import_objects(
                backend, kinds, source, overwrite=options.overwrite, report_progress=report_progress
            )


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
