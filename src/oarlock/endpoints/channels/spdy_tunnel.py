"""Carries a SPDY connection of a backend in the messages of a client's WebSocket.

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


def in_messages(answer: HttpResponse, tunnel: Tunnel) -> Sequence[Coroutine[Any, Any, None]]:
    """Carries what is in the client's messages to the backend, and what comes back in messages."""
    frames = WebSocketFrames()

    async def up() -> None:
        pacer = Pacer()
        while data := await tunnel.read():
            for start in range(0, len(data), PARSE_BYTES):
                if not await parsed(data[start : start + PARSE_BYTES]):
                    return
                await pacer.turn()
            await tunnel.drained()

    async def parsed(data: bytes) -> bool:
        """Whether more is to come."""
        for found in frames.feed(data):
            match found:
                case Piece():
                    if found.data:
                        await answer.write(found.data)
                case Reply():
                    tunnel.write(found.data)
                case Over():
                    if found.code:
                        tunnel.write(frames.close(found.code, found.why))
                    return False
        return True

    async def down() -> None:
        while piece := await answer.piece():
            tunnel.write(frames.message(piece))
            await tunnel.drained()
        tunnel.write(frames.close(NORMAL, ""))

    return up(), down()
