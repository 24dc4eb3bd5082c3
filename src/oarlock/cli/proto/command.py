"""The command ``oarlock proto``. See also: `text`, `files`."""

from __future__ import annotations

from pathlib import Path

from oarlock.cli.loading import load_server
from oarlock.cli.proto.files import check_lock, write_lock
from oarlock.cli.proto.text import proto_text
from oarlock.schema.definition import ResourceDefinition
from oarlock.server.command import CommandError

__all__ = ["run"]


def run(server: str, version: str, *, lock: Path | None, check: Path | None) -> None:
    """Print the file, write it to `lock`, or compare it with `check`."""
    if lock and check:
        raise CommandError("say either --lock or --check")
    definition, name = _numbered(server, version)
    if lock:
        write_lock(definition, name, lock)
    elif check:
        check_lock(definition, name, check)
    else:
        print(proto_text(definition, name), end="")


def _numbered(server: str, version: str) -> tuple[ResourceDefinition, str]:
    """The definition and version that are meant, of those that have field numbers."""
    found = {}
    for one in load_server(server).catalog.resources:
        for served in one.definition.versions:
            if proto_text(one.definition, served.name):
                name = f"{one.definition.api_version(served.name)}/{one.definition.names.plural}"
                found[name] = one.definition, served.name
    if not found:
        raise CommandError(f"{server}: no field has a number: write Annotated[…, Proto(1)]")
    if not version and len(found) == 1:
        version = next(iter(found))
    if version not in found:
        what = f"{version} has no field numbers" if version else "several have field numbers"
        raise CommandError(f"{server}: {what}: say one of {', '.join(found)}")
    return found[version]
