"""``oarlock storage compact``: forgets history now."""

from __future__ import annotations

import asyncio

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.commands import Command
from oarlock.server.options.groups.storage import StoreOptions
from oarlock.server.options.option import option
from oarlock.server.options.types import IntegerType
from oarlock.storage.care.compact import compact

__all__ = ["COMPACT"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Compact(StoreOptions):
    by_position = ("storage",)

    revision: int | None = option(
        None, IntegerType(minimum=1), "Forget what came before this revision; the current one unless given."
    )


def _compact(options: _Compact) -> None:
    """Forget history before a revision.

    Live objects are kept; watches and pages from before it are answered 410, and their clients start again.
    """
    compacted, current = asyncio.run(compact(options.storage, options.revision))
    print(f"{options.shown_storage}: compacted at revision {compacted}, current is {current}")


COMPACT = Command("compact", _Compact, _compact)
