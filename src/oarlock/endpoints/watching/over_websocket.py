"""`EventSocket`: a watch over WebSocket, with one message per event.

Used when a client sends ``Upgrade: websocket`` (fabric8 does, browsers have to). JSON events are text messages; CBOR
and protobuf events are binary messages, protobuf without its length prefix. The subprotocol makes no difference.
Must not know: events, resources. Source: k8s.io/apiserver ``endpoints/handlers`` WatchServer.HandleWS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from oarlock.endpoints import errors
from oarlock.endpoints.channels.one_way import OneWay
from oarlock.endpoints.channels.upgrades import VERSION, WrongVersion, watch_upgrade
from oarlock.endpoints.http import Response, Stream, Tunnel
from oarlock.endpoints.negotiation import JSON, PROTOBUF
from oarlock.endpoints.request_state import RequestState
from oarlock.storage.pacing import Pacer

__all__ = ["EventSocket", "over_websocket"]

log = logging.getLogger("oarlock.endpoints")

PING_S = 30.0
"""Interval of pings, in seconds: detects vanished clients, and keeps proxies from closing an idle connection."""
CLOSE_S = 5.0
"""How long the client may take to answer a Close frame, in seconds."""
FED_BYTES = 4096
"""How many received bytes are skipped before other tasks get a turn: a frame may have only six bytes."""
_LENGTH_BYTES = 4
"""The length prefix of an event in protobuf."""


def over_websocket(state: RequestState, start: Callable[[Stream], None], media_type: str) -> Response:
    """The 101 that carries the stream `start` writes to. Raises the StatusError of an invalid handshake."""
    try:
        headers = watch_upgrade(state.request, state.target)
    except WrongVersion as error:
        refused = errors.error_response(error, state)
        refused.headers.append(("sec-websocket-version", VERSION))
        return refused

    def begin(tunnel: Stream) -> None:
        socket = EventSocket(cast(Tunnel, tunnel), media_type)
        start(socket)
        socket.listen()

    return Response(101, headers, stream=begin)


class EventSocket:
    """See `oarlock.endpoints.http.Stream`. What the client sends is read and ignored."""

    def __init__(self, tunnel: Tunnel, media_type: str) -> None:
        self._tunnel = tunnel
        self._text = media_type == JSON
        self._skipped = _LENGTH_BYTES if media_type == PROTOBUF else 0
        self._frames = OneWay()
        self._loop = asyncio.get_running_loop()
        self._callbacks: list[Callable[[], None]] = []
        self._timer = self._loop.call_later(PING_S, self._ping)
        self._reading: asyncio.Task[None] | None = None
        self.closed = False
        tunnel.on_close(self._gone)

    # Called by the watch.

    def write(self, data: bytes) -> None:
        if not self.closed:
            self._tunnel.write(self._frames.message(data[self._skipped :], text=self._text))

    @property
    def buffered(self) -> int:
        return self._tunnel.buffered

    @property
    def shared_writer(self) -> None:
        """Each event is a message of its own."""

    async def drained(self) -> None:
        await self._tunnel.drained()

    def close(self) -> None:
        """Send a Close frame, and disconnect when the client has answered it or `CLOSE_S` have passed."""
        if self._frames.closing or self.closed:
            return
        self._tunnel.write(self._frames.close())
        self._timer.cancel()
        self._timer = self._loop.call_later(CLOSE_S, self._tunnel.close)
        self._loop.call_soon(self._ended)

    def abort(self) -> None:
        self._tunnel.abort()

    def on_close(self, callback: Callable[[], None]) -> None:
        if self.closed:
            callback()
        else:
            self._callbacks.append(callback)

    # The client's side.

    def listen(self) -> None:
        """Read what the client sends, until one side ends it."""
        self._reading = self._loop.create_task(self._read())

    async def _read(self) -> None:
        try:
            await self._listen()
        except Exception:
            log.exception("a WebSocket could not be read any further")
            self._tunnel.abort()

    async def _listen(self) -> None:
        pacer = Pacer()
        tunnel, frames = self._tunnel, self._frames
        while data := await tunnel.read():
            for start in range(0, len(data), FED_BYTES):
                answers = frames.feed(data[start : start + FED_BYTES])
                if answers:
                    tunnel.write(answers)
                    await tunnel.drained()
                if frames.over:
                    tunnel.close()
                    return
                await pacer.turn()

    def _ping(self) -> None:
        self._tunnel.write(self._frames.ping())
        self._timer = self._loop.call_later(PING_S, self._ping)

    def _gone(self) -> None:
        self._timer.cancel()
        self._ended()

    def _ended(self) -> None:
        """The stream has ended: call the `on_close` callbacks."""
        self.closed = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
