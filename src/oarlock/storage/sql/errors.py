"""`StoreBroken`: the store can't be trusted any more. What drivers raise is translated where the drivers are."""

from __future__ import annotations

from oarlock.storage.backend import Unavailable

__all__ = ["StoreBroken"]


class StoreBroken(Unavailable):
    """The disk or the data can't be trusted: nothing more is written until the process has been restarted.

    A failed fsync must never be retried: the kernel may have dropped the pages it couldn't write.
    """
