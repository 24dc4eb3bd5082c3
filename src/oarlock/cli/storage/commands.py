"""The commands of ``oarlock storage``, in the order of ``--help``."""

from __future__ import annotations

from oarlock.cli.storage.backup import BACKUP
from oarlock.cli.storage.check import CHECK
from oarlock.cli.storage.compact import COMPACT
from oarlock.cli.storage.copy import COPY
from oarlock.cli.storage.export import EXPORT
from oarlock.cli.storage.import_ import IMPORT
from oarlock.cli.storage.migrate import MIGRATE
from oarlock.cli.storage.restore import RESTORE
from oarlock.cli.storage.stats import STATS
from oarlock.server.options.commands import CommandGroup

__all__ = ["STORAGE"]

STORAGE = CommandGroup(
    "storage",
    "Look after a store, also while a server runs on it.",
    (CHECK, COMPACT, MIGRATE, BACKUP, RESTORE, COPY, EXPORT, IMPORT, STATS),
)
