"""The kinds of one API group, a file each; `KINDS` are those that have no class."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.batch.cron_job import CRON_JOB
from oarlock.apps.kinds.batch.job import JOB

__all__ = ["KINDS"]

KINDS: Final = (
    CRON_JOB,
    JOB,
)
