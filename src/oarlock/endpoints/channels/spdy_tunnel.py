"""`MessageTunnel`: a SPDY connection in the messages of a client's WebSocket, of a backend or with `forwarded_ports`.

Imported by the first request for such a tunnel: the WebSocket code takes a tenth of a server's start.
See also: `upgrades`, who asks for one. Source: Kubernetes' ``apiserver/pkg/util/proxy``, TunnelingHandler; KEP-4006.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from oarlock.endpoints.channels.over_pipe import NORMAL
from oarlock.endpoints.channels.websocket_frames import Over, Piece, Reply, WebSocketFrames
from oarlock.endpoints.http import Tunnel
from oarlock.net.messages import HttpResponse
from oarlock.storage.pacing import Pacer

PARSE_BYTES = 4096
"""How many bytes are parsed before other tasks get a turn: a frame may have only six bytes."""


class MessageTunnel:
    """The bytes that are in the messages of a client's WebSocket; `tunnel` has the WebSocket."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel
        self._frames = WebSocketFrames()
        self._pacer = Pacer()
        self._unparsed = b""
        self._over = False

    async def read(self) -> bytes:
        """The bytes of the next messages; ``b""`` at the end."""
        found = b""
        while not found and not self._over:
            if not self._unparsed:
                await self._tunnel.drained()
                self._unparsed = await self._tunnel.read()
                if not self._unparsed:
                    break
            data, self._unparsed = self._unparsed[:PARSE_BYTES], self._unparsed[PARSE_BYTES:]
            found = self._parsed(data)
            await self._pacer.turn()
        return found

    def _parsed(self, data: bytes) -> bytes:
        pieces = []
        for found in self._frames.feed(data):
            match found:
                case Piece():
                    pieces.append(found.data)
                case Reply():
                    self._tunnel.write(found.data)
                case Over():
                    self._over = True
                    if found.code:
                        self._tunnel.write(self._frames.close(found.code, found.why))
        return b"".join(pieces)

    def write(self, data: bytes) -> None:
        """Send `data` in a message."""
        self._tunnel.write(self._frames.message(data))

    async def drained(self) -> None:
        await self._tunnel.drained()

    def finish(self) -> None:
        """Tell the client that no more will come."""
        self._tunnel.write(self._frames.close(NORMAL, ""))


def in_messages(answer: HttpResponse, tunnel: Tunnel) -> Sequence[Coroutine[Any, Any, None]]:
    """Carries what is in the client's messages to the backend, and what comes back in messages."""
    messages = MessageTunnel(tunnel)

    async def up() -> None:
        while data := await messages.read():
            await answer.write(data)

    async def down() -> None:
        while piece := await answer.piece():
            messages.write(piece)
            await messages.drained()
        messages.finish()

    return up(), down()
