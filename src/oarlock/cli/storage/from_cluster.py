"""What ``oarlock storage copy --from-cluster`` does: the objects of definitions in a cluster, written into a store.

They are read in pages, in the version that the server stores if the cluster has it, and kept in a file without a name:
an import reads its objects twice, and those of a cluster may change meanwhile.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

from oarlock.cli.loading import load_server
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
from oarlock.registry.stored.importing import ImportResult, NumberedTree
from oarlock.server.command import CommandError
from oarlock.storage.backend import Backend
from oarlock.storage.care.snapshot import OperationProgress, ReportProgress

PAGE = 500
"""How many objects are read at once."""
MOST_SHOWN = 300


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """From where, of what, and where to. `resources` are some of the server's, as ``plural.group``; empty for all."""

    kubeconfig: Path | None
    context: str
    server: str
    resources: tuple[str, ...]
    url: str
    overwrite: bool
    encryption: Path | None


async def copy_from_cluster(asked: ClusterCopy, report_progress: ReportProgress) -> ImportResult:
    """Raises `CommandError`, `ImportRefused`, and what the store raises."""
    stored = [resource for resource in load_server(asked.server).catalog.resources if resource.virtual is None]
    wanted = _wanted(stored, asked)

    async def check(backend: Backend) -> None:
        if not asked.overwrite:
            await _check_empty(backend, wanted)

    with tempfile.TemporaryFile() as file:
        try:
            client = connect(load_config(asked.kubeconfig, context=asked.context))
        except (ClientConfigError, TransportError) as error:
            raise CommandError(str(error)) from None
        async with client:
            await _read(client, wanted, file, report_progress)
        how = Putting(asked.url, asked.overwrite, asked.encryption, check)
        return await put_objects(how, stored, lambda: _trees(file), report_progress)


def _wanted(stored: Sequence[Served], asked: ClusterCopy) -> list[Served]:
    by_name = {str(resource.definition.group_resource): resource for resource in stored}
    for name in asked.resources:
        if name not in by_name:
            known = ", ".join(sorted(by_name)) or "nothing"
            raise CommandError(f"--resource={name}: {asked.server} doesn't store it: it stores {known}")
    return [by_name[name] for name in dict.fromkeys(asked.resources or by_name)]


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
