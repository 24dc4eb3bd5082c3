"""The command ``oarlock storage copy``: a whole store to another.

With ``--from-cluster`` the objects of definitions in a cluster are copied. They are read in pages, in the version that
the server stores if the cluster has it, and kept in a file without a name: an import reads its objects twice, and those
of a cluster may change meanwhile.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

from oarlock.cli.cluster_options import ClusterOptions
from oarlock.cli.loading import load_server
from oarlock.cli.quiet import QuietOptions
from oarlock.cli.storage.running import (
    command_line,
    run_operation,
    store_argument,
    url_problems,
)
from oarlock.cli.storage.transfer import Putting, put_objects
from oarlock.client.client import Client
from oarlock.client.http_transport import connect
from oarlock.client.kinds import ResourceRef
from oarlock.client.login.kubeconfig import ClientConfigError, load_config
from oarlock.client.transport import TransportError
from oarlock.codec import json
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import NotFound, StatusError
from oarlock.registry.served import Served
from oarlock.registry.stored.form import after_prefix, prefix_of
from oarlock.registry.stored.importing import ImportRefused, ImportResult, NumberedTree
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, argument, option
from oarlock.server.options.types import BooleanType, PathType, StringListType, StringType, URLType
from oarlock.storage.backend import Backend
from oarlock.storage.care.copy import copy
from oarlock.storage.care.snapshot import OperationProgress, ReportProgress
from oarlock.storage.passwords import without_password

PAGE = 500
"""How many objects are read at once."""
MOST_SHOWN = 300


async def copy_from_cluster(options: CopyOptions, report_progress: ReportProgress) -> ImportResult:
    """Raises `CommandError`, `ImportRefused`, and what the store raises."""
    stored = [resource for resource in load_server(options.server).catalog.resources if resource.virtual is None]
    wanted = _wanted(stored, options)

    async def check(backend: Backend) -> None:
        if not options.overwrite:
            await _check_empty(backend, wanted)

    with tempfile.TemporaryFile() as file:
        try:
            client = connect(load_config(options.kubeconfig, context=options.context))
        except (ClientConfigError, TransportError) as error:
            raise CommandError(str(error)) from None
        async with client:
            await _read(client, wanted, file, report_progress)
        how = Putting(options.source, options.overwrite, options.encryption_provider_config, check)
        return await put_objects(how, stored, lambda: _trees(file), report_progress)


def _wanted(stored: Sequence[Served], options: CopyOptions) -> list[Served]:
    by_name = {str(resource.definition.group_resource): resource for resource in stored}
    for name in options.resources:
        if name not in by_name:
            known = ", ".join(sorted(by_name)) or "nothing"
            raise CommandError(f"--resource={name}: {options.server} doesn't store it: it stores {known}")
    return [by_name[name] for name in dict.fromkeys(options.resources or by_name)]


async def _check_empty(backend: Backend, wanted: Sequence[Served]) -> None:
    """Refuse to mix the cluster's objects with others. Raises `CommandError`."""
    for resource in wanted:
        definition = resource.definition
        prefix = prefix_of(definition.group, definition.names.plural)
        page = await backend.list(prefix, after_prefix(prefix), limit=1)
        if page.kvs:
            what = f"the store has objects of {definition.group_resource} already"
            raise CommandError(f"{what}: --overwrite adds the cluster's, and replaces those that differ")


async def _read(client: Client, wanted: Sequence[Served], file: BinaryIO, report_progress: ReportProgress) -> None:
    """Write the objects of these resources into `file`, a line each."""
    for resource in wanted:
        name = resource.definition.group_resource
        progress = OperationProgress(f"reading {name}")
        try:
            ref = await _resource_in(client, resource)
            async with aclosing(client.pages(ref, page_size=PAGE)) as pages:
                async for page in pages:
                    for tree in page.items:
                        line = json.encode(tree)
                        file.write(line + b"\n")
                        progress.done += 1
                        progress.bytes += len(line)
                    progress.total = progress.done + page.remaining
                    report_progress(progress)
        except (StatusError, TransportError) as error:
            raise CommandError(f"{name} of the cluster can't be read: {error}") from None


async def _resource_in(client: Client, resource: Served) -> ResourceRef:
    """Where the cluster has the objects of a resource. Raises NotFound, and what the client raises."""
    definition = resource.definition
    versions = (definition.stored_as, *(version.name for version in definition.versions))
    for version in dict.fromkeys(versions):
        try:
            return await client.ref(f"{definition.group}/{version}/{definition.names.kind}")
        except NotFound as error:
            missing = error
    raise missing


def _trees(file: BinaryIO) -> Iterator[NumberedTree]:
    """The objects in the file, from its beginning."""
    file.seek(0)
    for line in file:
        tree = json.decode(line)
        metadata = tree["metadata"] if isinstance(tree.get("metadata"), dict) else {}
        place = f"{metadata.get('namespace') or ''}/{metadata.get('name')}".lstrip("/")
        where = f"{str(tree.get('kind')).lower()} {place}"[:MOST_SHOWN]
        yield NumberedTree("".join(letter if letter.isprintable() else "?" for letter in where), tree)


@dataclass(frozen=True, kw_only=True, repr=False)
class CopyOptions(QuietOptions, ClusterOptions):
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


def _copy(options: CopyOptions) -> None:
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


def _copy_from_cluster(options: CopyOptions) -> None:
    again = "the store may have some of the objects: run it again with --overwrite"
    shown = without_password(options.source)
    try:
        result = run_operation(
            lambda report: copy_from_cluster(options, report), quiet=options.quiet, interrupted=again
        )
    except ImportRefused as error:
        for line in error.lines:
            print(line)
        raise CommandError(f"nothing was written to {shown}: see the errors above") from None
    counts = f"{result.created} objects created, {result.replaced} replaced, {result.unchanged} were there already"
    print(f"{shown}: {counts}")


COPY = Command("copy", CopyOptions, _copy)
