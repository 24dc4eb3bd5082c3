"""``oarlock proto --lock`` and ``--check``: the committed ``.proto`` file, read, compared and written.

Must not know: how field numbers may change. See also: `lock`, which does.
"""

from __future__ import annotations

from pathlib import Path

from oarlock.cli.proto.lock import is_locked, locked_text, number_changes
from oarlock.cli.proto.reading import ProtoTextError
from oarlock.cli.proto.text import proto_text
from oarlock.schema.definition import ResourceDefinition
from oarlock.server.command import CommandError

__all__ = ["check_lock", "write_lock"]


def write_lock(definition: ResourceDefinition, version: str, file: Path) -> None:
    """Write the file, or leave it as it is and raise `CommandError` if that would break clients of it."""
    locked = _read(file)
    if locked is None:
        _write(file, proto_text(definition, version))
        return
    _refuse_changes(definition, version, file, locked)
    text = locked_text(definition, version, locked)
    if text == locked:
        print(f"{file}: as it was")
        return
    _write(file, text)


def check_lock(definition: ResourceDefinition, version: str, file: Path) -> None:
    """Raise `CommandError` unless the file has every field as it is declared."""
    locked = _read(file)
    if locked is None:
        raise CommandError(f"{file}: there is no such file: write it with --lock")
    _refuse_changes(definition, version, file, locked)
    if not is_locked(definition, version, locked):
        raise CommandError(f"{file}: fields were added or removed since: write it again with --lock")
    print(f"{file}: as declared")


def _refuse_changes(definition: ResourceDefinition, version: str, file: Path, locked: str) -> None:
    try:
        changes = number_changes(definition, version, locked)
    except ProtoTextError as error:
        raise CommandError(f"{file}: {error}") from None
    for change in changes:
        print(change)
    if changes:
        count = "1 change" if len(changes) == 1 else f"{len(changes)} changes"
        raise CommandError(f"{count} would break clients that were built with {file}")


def _read(file: Path) -> str | None:
    """None when there is no such file."""
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{file}: isn't text in UTF-8") from None


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from None
    print(f"{file}: written")
