"""``oarlock storage restore``: fills an empty store from a backup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.storage.running import QuietOptions, command_line, run_operation, store_argument, url_problems
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, argument
from oarlock.server.options.types import PathType
from oarlock.storage.care.restore import restore
from oarlock.storage.passwords import without_password

__all__ = ["RESTORE"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Restore(QuietOptions):
    file: Path = argument(PathType(), "What `oarlock storage backup` wrote.")
    url: str = store_argument("The store to fill; it must be empty, or not be there yet.")

    def check(self) -> Iterator[Problem]:
        yield from url_problems("url", self.url, self.file, "the file first, then the URL")


def _restore(options: _Restore) -> None:
    """Fill an empty store from a backup.

    The whole file is checked first. The restored store has another epoch, and revisions above those that the old one
    gave out: clients that still know some are told to list again. No server starts on it before all is there.
    """
    command = command_line("restore", options.file, options.url)
    restored = run_operation(
        lambda report: restore(options.file, options.url, command, report),
        quiet=options.quiet,
        interrupted=f"run `{command}` again, it goes on where it was",
    )
    expired = f", {restored.expired} had expired" if restored.expired else ""
    was = f"as of revision {restored.from_rev}, now at revision {restored.rev}"
    print(f"{without_password(options.url)}: {restored.keys} keys{expired}, {was}")


RESTORE = Command("restore", _Restore, _restore)
