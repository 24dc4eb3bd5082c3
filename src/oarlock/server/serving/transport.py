"""`TransportBuffer`: what a transport keeps of what was written to it, charged to the budget of the process.

Next: `http1_outgoing`, `outgoing`.
"""

from __future__ import annotations

from typing import Any

from oarlock.endpoints.unsent import Unsent

__all__ = ["HIGH_BYTES", "LOW_BYTES", "TLS_BUFFER_BYTES", "TransportBuffer"]

HIGH_BYTES = 128 * 1024
LOW_BYTES = 32 * 1024
TLS_BUFFER_BYTES = 4 * (16 * 1024 + 64)
"""The encrypted bytes a TLS connection gathers before it sends them: four records."""


class TransportBuffer:
    """What is charged for one transport. A TLS connection that is behind keeps a buffer of records as well."""

    __slots__ = ("_overhead", "_transport", "_unsent", "held")

    def __init__(self, unsent: Unsent, transport: Any, secure: bool) -> None:
        self._unsent = unsent
        self._transport = transport
        self._overhead = TLS_BUFFER_BYTES if secure else 0
        self.held = 0
        """Bytes that are charged, as of the last look."""

    def settle(self) -> None:
        """Look again. Called after writes that left something, and now and then while there is something."""
        size = self._transport.get_write_buffer_size()
        if size:
            size += self._overhead
        if size != self.held:
            self._unsent.add(size - self.held)
            self.held = size

    def close(self) -> None:
        self._unsent.add(-self.held)
        self.held = 0
