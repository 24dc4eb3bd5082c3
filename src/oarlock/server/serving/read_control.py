"""How much is read from a connection: `ReadControl` pauses it, `TokenBucket` and `TurnBudget` limit work.

A paused transport doesn't notice a disconnect: the end of the stream is behind unread data. So the socket itself is
polled. See also: `http1.connection`, `http2.connection`.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Any

from oarlock.storage.pacing import SLICE_S

__all__ = ["ReadControl", "TokenBucket", "TurnBudget"]

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


class TokenBucket:
    """A token bucket. Full at first; `take` says whether there was enough in it."""

    __slots__ = ("_at", "_burst", "_left", "_per_s")

    def __init__(self, per_s: float, burst: int, now: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = float(burst)
        self._at = now

    def take(self, count: int, now: float) -> bool:
        """Take `count` tokens; False if there aren't enough. `now` is in monotonic seconds."""
        left = self._left - count
        if left < 0:  # only then is the time that passed worth looking at
            left = min(float(self._burst), self._left + (now - self._at) * self._per_s) - count
            self._at = now
        self._left = left
        return left >= 0


class TurnBudget:
    """What one connection may start in one turn of the event loop: `most` requests, within one slice of time.

    At least one is always allowed.
    """

    __slots__ = ("_monotonic", "_most", "_until")

    def __init__(self, most: int, monotonic: Callable[[], float]) -> None:
        self._most = most
        self._monotonic = monotonic
        self._until = 0.0

    def take(self) -> bool:
        """Whether one more may be started; if so it is counted."""
        if self._until == 0.0:
            self._until = self._monotonic() + SLICE_S
        elif self._most <= 0 or self._monotonic() > self._until:
            return False
        self._most -= 1
        return True
