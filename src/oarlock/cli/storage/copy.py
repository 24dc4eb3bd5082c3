"""``oarlock storage copy``: copies a store into another of any kind."""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.cli.storage.running import QuietOptions, command_line, run_operation, store_argument, url_problems
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, argument
from oarlock.server.options.types import URLType
from oarlock.storage.care.copy import copy
from oarlock.storage.passwords import without_password

__all__ = ["COPY"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Copy(QuietOptions):
    source: str = store_argument("The URL of the store to copy, as for servers.", "FROM")
    target: str = argument(URLType("TO"), "The URL of the store to fill; it must be empty, or not be there yet.")

    def check(self) -> Iterator[Problem]:
        yield from url_problems("source", self.source)
        yield from url_problems("target", self.target)


def _copy(options: _Copy) -> None:
    """Copy a store into another of any kind.

    What was begun goes on when this is run again. Servers of the source may run at first; stop them for the last run,
    which copies what they have written meanwhile. The copy has another epoch, with revisions above the source's: its
    clients list again. No server starts on it before all is there.
    """
    command = command_line("copy", options.source, options.target)
    copied = run_operation(
        lambda report: copy(options.source, options.target, command, report),
        quiet=options.quiet,
        interrupted=f"run `{command}` again, it goes on where it was",
    )
    source, target = without_password(options.source), without_password(options.target)
    print(f"{target}: {copied.keys} keys as {source} had them at revision {copied.from_rev}, now at {copied.rev}")
    if copied.source_moved:
        print(f"{source} has been written since: if that matters, stop its servers and copy it into a new store")


COPY = Command("copy", _Copy, _copy)
