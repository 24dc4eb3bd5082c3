"""`StoreIntegrity`: checks the store for damage once after the start, in the background.

A store may be damaged in places that nobody reads for months; the operator should know while there are old backups.
Must not know: which store it is. See also: `health`, which shows the result; ``storage.backend``, for what is checked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from oarlock.net.backoff import Backoff
from oarlock.storage.backend import Backend, StorageError

__all__ = ["StoreIntegrity"]

log = logging.getLogger("oarlock.server")

AGAIN = Backoff(60.0, 3600.0)
"""Seconds before the next attempt when the store was too busy: doubled each time, up to the second figure."""

MAX_FINDINGS_SHOWN = 3


class StoreIntegrity:
    """`findings` is what is wrong with the store, one line each, as far as it has been checked."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.findings: Sequence[str] = ()

    async def run(self) -> None:
        """Check the store, again later if it is too busy; log what is found."""
        pauses = AGAIN.pauses()
        while True:
            try:
                self.findings = await self._backend.check(quick=True)
                break
            except StorageError as error:
                log.info("the store couldn't be looked through, next attempt in %g s: %s", pauses.next_s, error)
            await asyncio.sleep(pauses.take())
        for finding in self.findings:
            log.error("the store is damaged: %s", finding)
        if self.findings:
            log.error("see `oarlock storage check` for everything, and restore the store from a backup")

    async def test(self) -> str:
        """The health check: what is wrong, ``""`` if nothing is known to be."""
        more = len(self.findings) - MAX_FINDINGS_SHOWN
        shown = "; ".join(self.findings[:MAX_FINDINGS_SHOWN])
        return f"{shown}; and {more} more" if more > 0 else shown
