"""The commands ``oarlock storage compact`` and ``stats``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from oarlock.cli.quiet import QuietOptions
from oarlock.cli.storage.running import (
    command_line,
    readable_bytes,
    run_operation,
    store_argument,
    url_problems,
)
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.commands import Command
from oarlock.server.options.groups.storage import StoreOptions
from oarlock.server.options.option import Problem, option
from oarlock.server.options.types import IntegerType
from oarlock.storage.care.operations import KeyGroup, compact, stats


@dataclass(frozen=True, kw_only=True, repr=False)
class _Compact(StoreOptions):
    by_position = ("storage",)

    revision: int | None = option(
        None, IntegerType(minimum=1), "Remove history before this revision. By default the current one."
    )


def _compact(options: _Compact) -> None:
    """Remove history before a revision.

    Live objects are kept. Watches and pages from before it are answered with 410, and their clients list again.
    """
    compacted, current = asyncio.run(compact(options.storage, options.revision))
    print(f"{options.shown_storage}: compacted at revision {compacted}, current is {current}")


COMPACT = Command("compact", _Compact, _compact)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Stats(QuietOptions):
    url: str = store_argument("The URL of the store.")

    def check(self) -> Iterator[Problem]:
        yield from url_problems("url", self.url)


def _stats(options: _Stats) -> None:
    """Count what is in a store.

    Prints the keys and bytes of each resource, and the state of the store: revisions, epoch, size on disk.
    """
    again = f"nothing was changed; run `{command_line('stats', options.url)}` again"
    found = run_operation(lambda report: stats(options.url, report), quiet=options.quiet, interrupted=again)
    for line in _table(found.groups):
        print(line)
    print(f"revision: {found.rev}, compacted at {found.compact_rev}")
    print(f"history: at most {found.rev - found.compact_rev} changes")
    print(f"epoch: {found.epoch}")
    print(f"on disk: {'not known' if found.disk_bytes is None else readable_bytes(found.disk_bytes)}")


def _table(groups: Sequence[KeyGroup]) -> Iterator[str]:
    total = KeyGroup("all", sum(group.keys for group in groups), sum(group.bytes for group in groups))
    total.largest = max((group.largest for group in groups), default=0)
    rows = [
        (_name(group.prefix), str(group.keys), readable_bytes(group.bytes), readable_bytes(group.largest))
        for group in (*groups, total)
    ]
    rows.insert(0, ("resource", "keys", "values", "largest"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join((row[0].ljust(widths[0]), *cells))


def _name(prefix: str) -> str:
    """``orders.shop.example.com`` for the prefix of a resource's keys."""
    parts = prefix.split("/")
    if prefix.startswith("/registry/") and len(parts) == 5:
        return f"{parts[3]}.{parts[2]}".rstrip(".")
    return prefix


STATS = Command("stats", _Stats, _stats)
