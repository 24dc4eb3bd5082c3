"""What a subresource that connects talks through: `Channels` of a terminal or of its own, or a raw `Pipe`.

Only what users' methods see; how it travels is decided above. Nothing here waits for a client that is gone: then
the method is cancelled, so its `finally` runs, and what it still writes is dropped.
Must not know: HTTP, WebSockets, frames. Next: `subresource`, whose methods are handed one of these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

__all__ = ["Channel", "Channels", "Pipe", "TerminalSize"]


class TerminalSize(NamedTuple):
    """How large the client's terminal is, in characters."""

    width: int
    height: int


class Channel(Protocol):
    """One of several ways that share a connection. ``async for data in channel`` reads it to its end."""

    async def read(self) -> bytes:
        """The next bytes, in no particular pieces; ``b""`` once the client has closed this channel.

        What isn't read stays with the client as soon as a quarter of a megabyte waits, whichever channel it is for.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send `data`; returns when little enough of it is still waiting for the client to read."""
        ...

    async def close(self) -> None:
        """Nothing more is written, and what still comes is dropped.

        Clients are told of it with ``v5.channel.k8s.io``; older protocols have no words for it.
        """
        ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class Channels(Protocol):
    """The channels of one client. Source: Kubernetes' ``remotecommand``, KEP-4006.

    Those of a terminal: 0 is standard input, 1 and 2 are output and errors, on 3 the server says how it ended, 4
    tells of the terminal's size. With ``numbered=`` they mean what you make of them, and all go both ways.
    """

    @property
    def protocol(self) -> str:
        """What was agreed on, such as ``v5.channel.k8s.io``; empty when the client named nothing."""
        ...

    @property
    def stdin(self) -> Channel:
        """Channel 0. Only with ``v5.channel.k8s.io`` can a client end it without leaving."""
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
        """The channel with this number. IndexError when there is none."""
        ...

    async def resized(self) -> TerminalSize:
        """Wait until the client tells the size of its terminal, and return the newest.

        Of several sizes that nobody waited for only the last is kept.
        """
        ...


class Pipe(Protocol):
    """A connection that speaks a protocol of your own: raw bytes both ways."""

    @property
    def protocol(self) -> str:
        """The protocol the client asked for, as you spelled it in ``upgrade=``."""
        ...

    async def read(self) -> bytes:
        """The next bytes, as they came; ``b""`` once it is over."""
        ...

    async def write(self, data: bytes) -> None:
        """Send `data`; returns when little enough of it is still waiting for the client to read."""
        ...
