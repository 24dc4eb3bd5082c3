"""Memory that many connections leave behind when they have ended is given back to the system.

What a connection needs lies between what others need, so the C library keeps the pages that it frees: a thousand watch
connections that come and go leave 30 MiB each time. glibc gives them back when told to; elsewhere nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes

__all__ = ["CONNECTIONS", "FreedMemory"]

CONNECTIONS = 250
"""After how many connections that ended memory is given back."""

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


class FreedMemory:
    """Counts connections that end. `give_back` is called now and then."""

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended = 0

    def connection_ended(self) -> None:
        self._ended += 1

    def give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give memory back, if enough connections have ended since: in a thread, since it may take milliseconds."""
        if self._ended >= CONNECTIONS and _trim is not None:
            self._ended = 0
            loop.run_in_executor(None, _trim, 0)
