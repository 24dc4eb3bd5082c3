"""`ReadControl`: pauses reading from a transport, and detects disconnects while it is paused.

A paused transport doesn't notice a disconnect: the end of the stream is behind unread data. So the socket itself is
polled. See also: `http1.connection`, `http2.connection`.
"""

from __future__ import annotations

import asyncio
import select
from typing import Any

__all__ = ["ReadControl"]

CUT = select.POLLHUP | select.POLLERR | select.POLLNVAL
ENDED = getattr(select, "POLLRDHUP", 0)  # Linux: the peer has closed its half, even if data is still unread


class ReadControl:
    """Pauses and resumes one transport."""

    __slots__ = ("_loop", "_pausing", "_transport", "paused")

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pausing: asyncio.Handle | None = None
        self.paused = False

    def pause(self) -> None:
        """From the next turn on: a TLS transport that is paused while it hands data over keeps what it has
        decrypted and not handed over, and doesn't give it when it is resumed unless more comes in."""
        if not self.paused:
            self.paused = True
            self._pausing = self._loop.call_soon(self._pause)

    def _pause(self) -> None:
        self._pausing = None
        self._transport.pause_reading()

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            if self._pausing is not None:
                self.forget()
            else:
                self._transport.resume_reading()

    def forget(self) -> None:
        """The transport is being closed."""
        if self._pausing is not None:
            self._pausing.cancel()
            self._pausing = None

    def peer_left(self, *, wholly: bool) -> bool:
        """Whether reading is paused and the peer has meanwhile reset the connection, or, unless `wholly`, ended its
        half of it. The other half can't be told from here: a client may still want the answer."""
        if not self.paused:
            return False
        sock = self._transport.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(sock.fileno(), ENDED)
        return any(found & (CUT if wholly else CUT | ENDED) for _, found in poll.poll(0))
