"""``oarlock storage backup``: writes a store to a file while servers run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.storage.running import (
    QuietOptions,
    command_line,
    readable_bytes,
    run_operation,
    store_argument,
    url_problems,
)
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, argument
from oarlock.server.options.types import PathType
from oarlock.storage.care.backup import backup
from oarlock.storage.passwords import without_password

__all__ = ["BACKUP"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Backup(QuietOptions):
    url: str = store_argument("The store, as for servers.")
    file: Path = argument(PathType(), "Where to; a file that is there is replaced once the new one is complete.")

    def check(self) -> Iterator[Problem]:
        yield from url_problems("url", self.url, self.file, "the URL first, then the file")


def _backup(options: _Backup) -> None:
    """Write a store to a file.

    The file has everything that was in the store at one moment, also while servers write. It can be restored into a
    store of any kind. Objects are in it as in the store: encrypted, if they are, and readable for who reads the file.
    """
    again = f"nothing was written; run `{command_line('backup', options.url, options.file)}` again"
    work = run_operation(
        lambda report: backup(options.url, options.file, report), quiet=options.quiet, interrupted=again
    )
    size = readable_bytes(options.file.stat().st_size)
    print(f"{options.file}: {work.keys} keys of {without_password(options.url)} at revision {work.rev}, {size}")


BACKUP = Command("backup", _Backup, _backup)
