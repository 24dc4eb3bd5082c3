"""Looks for damage in a store.

Must not know: what is stored. See also: `Backend.check`.
"""

from __future__ import annotations

from oarlock.storage.backend import Findings
from oarlock.storage.care.opening import opened

__all__ = ["check"]


async def check(url: str) -> Findings:
    """What is wrong with the store, one line each; empty when it is consistent.

    Raises `StorageError` with a one-line message when there is no store.
    """
    async with opened(url) as backend:
        return await backend.check()
