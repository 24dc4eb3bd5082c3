"""`TransportBuffer`: counts a transport's write buffer against the budget of the process.

See also: `http1.output`, `http2.output`.
"""

from __future__ import annotations

from typing import Any

from oarlock.endpoints.unsent import Unsent

__all__ = ["HIGH_BYTES", "LOW_BYTES", "TLS_BUFFER_BYTES", "TransportBuffer"]

HIGH_BYTES = 128 * 1024
LOW_BYTES = 32 * 1024
TLS_BUFFER_BYTES = 4 * (16 * 1024 + 64)
"""The encrypted bytes a TLS connection collects before it sends them: four records."""


class TransportBuffer:
    """The counted bytes of one transport. A TLS connection that is behind has a buffer of records as well."""

    __slots__ = ("_overhead", "_transport", "_unsent", "counted")

    def __init__(self, unsent: Unsent, transport: Any, secure: bool) -> None:
        self._unsent = unsent
        self._transport = transport
        self._overhead = TLS_BUFFER_BYTES if secure else 0
        self.counted = 0
        """Bytes that are counted, as of the last `recount`."""

    def recount(self) -> None:
        """Update the count. Called after writes that left something, and periodically while there is something."""
        size = self._transport.get_write_buffer_size()
        if size:
            size += self._overhead
        if size != self.counted:
            self._unsent.add(size - self.counted)
            self.counted = size

    def close(self) -> None:
        self._unsent.add(-self.counted)
        self.counted = 0
