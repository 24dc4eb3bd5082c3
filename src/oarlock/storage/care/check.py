"""Looks for damage in a store.

Must not know: what is stored. See also: `Backend.check`.
"""

from __future__ import annotations

from oarlock.storage.backend import Findings
from oarlock.storage.care.opening import Wrap, opened

__all__ = ["check"]


async def check(url: str, *, wrap: Wrap | None = None) -> Findings:
    """What is wrong with the store, one line each; empty when it is consistent. `wrap` is as in `opened`.

    Raises `StorageError` with a one-line message when there is no store.
    """
    async with opened(url, wrap=wrap) as backend:
        return await backend.check()
