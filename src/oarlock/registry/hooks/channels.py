"""The connection of a connecting subresource (exec, attach, port-forward): `Channels`, or a raw `Pipe`.

Only the interface that users' methods see; ``endpoints.channels`` implements it. When the client disconnects, the
method is cancelled, so its `finally` blocks run; what it still writes is discarded.
Must not know: HTTP, WebSockets, frames. See also: `subresource`, whose methods are given one of these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, Protocol


class TerminalSize(NamedTuple):
    """The size of the client's terminal, in characters."""

    width: int
    height: int


class Channel(Protocol):
    """A byte stream of a connection. ``async for data in channel`` reads it to its end."""

    async def read(self) -> bytes:
        """The next bytes, in pieces of any size; ``b""`` when the client has closed this channel.

        Backpressure: the server stops receiving while 256 KiB, over all channels, wait to be read.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send `data`. Waits while the client reads too slowly (backpressure)."""
        ...

    async def close(self) -> None:
        """Close this channel. Nothing more can be written, and data that still arrives is discarded.

        The client is notified with ``v5.channel.k8s.io`` only; older protocols have no message for it.
        """
        ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class Channels(Protocol):
    """The channels of one client. Source: Kubernetes' ``remotecommand``, KEP-4006.

    For a terminal: 0 is stdin, 1 stdout, 2 stderr, 3 the error channel with the final status, 4 the terminal's size.
    With ``numbered=`` the channels have no fixed meaning, and all of them go both ways.
    """

    @property
    def protocol(self) -> str:
        """The negotiated subprotocol, such as ``v5.channel.k8s.io``; empty when the client named none."""
        ...

    @property
    def stdin(self) -> Channel:
        """Channel 0. A client can close it alone, without disconnecting, only with ``v5.channel.k8s.io``."""
        ...

    @property
    def stdout(self) -> Channel:
        """Channel 1."""
        ...

    @property
    def stderr(self) -> Channel:
        """Channel 2."""
        ...

    def __getitem__(self, number: int) -> Channel:
        """The channel with this number. Raises IndexError if there is none."""
        ...

    async def resized(self) -> TerminalSize:
        """Wait until the client sends the size of its terminal, and return the latest.

        If several sizes arrived meanwhile, only the last is returned.
        """
        ...


class Pipe(Protocol):
    """An upgraded connection: raw bytes both ways, in a protocol of your own."""

    @property
    def protocol(self) -> str:
        """The protocol of the client's ``Upgrade`` header, spelled as in ``upgrade=``."""
        ...

    async def read(self) -> bytes:
        """The next bytes, in pieces of any size; ``b""`` at the end of the connection."""
        ...

    async def write(self, data: bytes) -> None:
        """Send `data`. Waits while the client reads too slowly (backpressure)."""
        ...


ForwardConnection = Callable[[int, Pipe], Awaitable[object]]
"""Serves one connection to a port, and returns at its end."""


class ForwardedPorts(Protocol):
    """The connections to ports that one client forwards."""

    async def serve(self, forward: ForwardConnection) -> None:
        """Call `forward` for each, until the client has disconnected."""
        ...
