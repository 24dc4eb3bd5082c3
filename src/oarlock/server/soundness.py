"""Is the store damaged? Looked at once after the start, beside the requests, and told by log and health check.

A store may be damaged where nobody reads for months; whoever operates it should hear of it while there are backups
from before. Must not know: which store it is. Next: `health`, which asks; ``storage.backend`` for what is checked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from oarlock.storage.backend import Backend, StorageError

__all__ = ["Soundness"]

log = logging.getLogger("oarlock.server")

FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 3600.0
"""How long to wait before looking again when the store had too much to do, at first and at most."""

SHOWN = 3


class Soundness:
    """`findings` is what is wrong with the store, one line each, as far as it has been looked at."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.findings: Sequence[str] = ()

    async def look(self) -> None:
        """Look through the store once; when it has too much to do, again later."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                self.findings = await self._backend.check(quick=True)
                break
            except StorageError as error:
                log.info("the store couldn't be looked through, next attempt in %g s: %s", pause_s, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        for finding in self.findings:
            log.error("the store is damaged: %s", finding)
        if self.findings:
            log.error("see `oarlock storage check` for everything, and restore the store from a backup")

    async def test(self) -> str:
        """For the health check: what is wrong, ``""`` when nothing is, or nothing is known yet."""
        more = len(self.findings) - SHOWN
        shown = "; ".join(self.findings[:SHOWN])
        return f"{shown}; and {more} more" if more > 0 else shown
