"""`ReloadCounts`: how often a configuration file was read again. See also: ``exposition``, which prints it."""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass

__all__ = ["ReloadCounts"]


@dataclass(slots=True)
class ReloadCounts:
    """How often a configuration file was read again, and when last: epoch seconds, 0 for never.

    `digest` is of the one in force, `without_key` how many stored objects can't be read with it.
    """

    succeeded: int = 0
    failed: int = 0
    succeeded_at: float = 0.0
    failed_at: float = 0.0
    digest: str = ""
    without_key: int = 0

    def add(self, now: float, *, well: bool) -> None:
        if well:
            self.succeeded += 1
            self.succeeded_at = now
        else:
            self.failed += 1
            self.failed_at = now
