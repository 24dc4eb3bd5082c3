"""The commands of ``oarlock storage``, in the order of ``--help``."""

from __future__ import annotations

from oarlock.cli.storage.backup import BACKUP, COPY, RESTORE
from oarlock.cli.storage.check import CHECK, MIGRATE
from oarlock.cli.storage.maintenance import COMPACT, STATS
from oarlock.cli.storage.transfer import EXPORT, IMPORT
from oarlock.server.options.commands import CommandGroup

STORAGE = CommandGroup(
    "storage",
    "Maintain a store, also while servers run on it.",
    (CHECK, COMPACT, MIGRATE, BACKUP, RESTORE, COPY, EXPORT, IMPORT, STATS),
)
