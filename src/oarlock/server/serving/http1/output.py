"""`Http1Output`: the send side of one HTTP/1 connection.

Small writes of one turn of the event loop are sent together. Writers of more check `congested` between pieces, so that
no more than the transport's buffer is copied for a client that doesn't read. See also: `http1.stream`.
"""

from __future__ import annotations

from typing import Any

from oarlock.server.serving.listener_state import ListenerState
from oarlock.server.serving.transport_buffer import HIGH_BYTES, LOW_BYTES, TransportBuffer

__all__ = ["Http1Output"]

JOINED_BYTES = 64 * 1024
"""In bytes. Larger writes are passed on without joining their parts."""


class Http1Output:
    """`put` what is to be sent, then `flush`."""

    __slots__ = ("_parts", "_transport", "_unsent", "buffer", "congested", "lost", "sent", "size")

    def __init__(self, listener: ListenerState, transport: Any, secure: bool) -> None:
        self._transport = transport
        self._unsent = transport.get_write_buffer_size
        self._parts: list[bytes] = []
        self.size = 0  # of the parts
        self.sent = 0
        self.congested = False
        self.lost = False
        self.buffer = TransportBuffer(listener.unsent, transport, secure)
        transport.set_write_buffer_limits(high=HIGH_BYTES, low=LOW_BYTES)

    @property
    def unsent(self) -> int:
        """Bytes the kernel hasn't accepted yet."""
        size: int = self._unsent()
        return size

    @property
    def accepted(self) -> int:
        """Bytes the kernel has accepted."""
        return self.sent - self.unsent

    def put(self, data: bytes) -> None:
        self._parts.append(data)
        self.size += len(data)

    def send(self, data: bytes) -> None:
        """Send `data` now, after what was put before."""
        if self._parts or self.lost:
            self.put(data)
            self.flush()
            return
        self.sent += len(data)
        self._transport.write(data)
        if self._unsent() or self.buffer.counted:
            self.buffer.recount()

    def flush(self) -> None:
        parts = self._parts
        if not parts or self.lost:
            return
        self._parts = []
        self.sent += self.size
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif self.size <= JOINED_BYTES:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
        self.size = 0
        if self._unsent() or self.buffer.counted:
            self.buffer.recount()

    def connection_lost(self) -> None:
        self.lost = True
        self._parts.clear()
        self.buffer.close()
