"""`TunnelPipe`: a raw tunnel for users' code; and `Ending`, why a connection ends and what the client gets.

See also: ``verbs.connect``, which ends it; `over_websocket`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oarlock.endpoints.http import Tunnel
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import StatusError
from oarlock.net.futures import shared

NORMAL, GOING_AWAY, PROTOCOL_ERROR, BAD_PAYLOAD, POLICY, TOO_BIG, INTERNAL_ERROR = (
    *(1000, 1001, 1002, 1007, 1008, 1009, 1011),
)
"""Status codes of a WebSocket Close frame (RFC 6455 §7.4.1)."""


@dataclass(frozen=True, slots=True)
class Ending:
    """`code` and `why` are those of the Close frame, 0 for a normal one.

    `error`, or else `exit_code`, is the outcome. `has_outcome` says whether it is sent, on channel 3.
    """

    code: int = 0
    why: str = ""
    exit_code: int = 0
    error: StatusError | None = None
    has_outcome: bool = True


GONE = Ending(has_outcome=False)
"""The client has disconnected."""


class TunnelPipe:
    """See `oarlock.registry.hooks.channels.Pipe`."""

    def __init__(self, protocol: str, used: Callable[[], None]) -> None:
        self._protocol = protocol
        self._used = used
        self._tunnel: asyncio.Future[Tunnel] = asyncio.get_running_loop().create_future()

    @property
    def protocol(self) -> str:
        return self._protocol

    async def read(self) -> bytes:
        return await (await self._opened()).read()

    async def write(self, data: bytes) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"{data!r:.100} can't be written: a pipe takes bytes")
        tunnel = await self._opened()
        tunnel.write(bytes(data))
        await tunnel.drained()

    async def _opened(self) -> Tunnel:
        self._used()
        return await shared(self._tunnel)

    def start(self, tunnel: Tunnel, ended: Callable[[Ending], None]) -> None:
        """The tunnel is open. `ended` is called once, when it is closed."""
        self._tunnel.set_result(tunnel)
        tunnel.on_close(lambda: ended(GONE))

    def finish(self, ending: Ending) -> None:
        """Close it. After an error of the method it is reset, so that the client doesn't take the data as complete."""
        tunnel = self._tunnel.result()
        if ending.error is None or ending.code:
            tunnel.close()
        else:
            tunnel.abort()
