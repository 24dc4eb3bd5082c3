"""Errors of SQL stores. What drivers raise is translated where the drivers are."""

from __future__ import annotations

from oarlock.storage.backend import Rev, Unavailable

__all__ = ["HistoryLost", "StoreBroken"]


class StoreBroken(Unavailable):
    """The disk or the data can't be trusted: nothing more is written until the process has been restarted.

    A failed fsync must never be retried: the kernel may have dropped the pages it couldn't write.
    """


class HistoryLost(Unavailable):
    """The store is below a revision that this process has seen: it was restored, or failed over to one that was behind.

    Nothing may be answered from it until another epoch has begun.
    """

    def __init__(self, rev: Rev, seen: Rev) -> None:
        super().__init__(f"the store is at revision {rev} and was at {seen}")
