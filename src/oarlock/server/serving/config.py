"""`ServingConfig` and `ConnectionLimits`: the settings of one listener, and the limits of one client.

Values only. The defaults are those of kube-apiserver where it has one (``MaxHeaderBytes`` 1 MiB, ``ReadHeaderTimeout``
32 s, ``IdleTimeout`` 90 s, 250 HTTP/2 streams, bodies of 3 MiB). See also: `listener`.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import field
from typing import Protocol

from oarlock.meta.dataclass import dataclass

__all__ = ["ConnectionLimits", "ServingConfig", "Sharing"]

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one client. Times in seconds, sizes in bytes.

    *Slow readers.* A finite answer is cut when less than `progress_bytes` of it were read within `stall_timeout_s`, or
    when it isn't sent `answer_timeout_s` after its head. An open-ended one (a watch) may buffer `stream_budget_bytes`,
    those of a connection together `connection_budget_bytes`, for any time; above that it must be read at the same pace:
    a client that keeps reading may be far behind and is still served. The `…_hard_bytes` limits apply at once. The
    unread bytes of all clients together are bounded by the process's budget (``endpoints.http.Unsent``).
    """

    max_header_bytes: int = MIB
    """Request line and headers together; more is answered with 431."""
    max_headers: int = 1000
    """Number of header lines; more is answered with 431."""
    max_request_bytes: int = 3 * MIB
    """A request body; for more, `Request.read` raises `BodyTooLarge`."""
    max_connections: int = 20_000
    """Further connections wait in the kernel's backlog."""

    header_timeout_s: float = 32.0
    """From the first byte of a request (or from the start of a connection) to the end of its headers."""
    idle_timeout_s: float = 90.0
    """How long a connection may stay open without a request."""
    tls_handshake_timeout_s: float = 15.0
    linger_s: float = 1.0
    """How long a refused client is still read before the connection is closed, so that it receives the answer."""

    stream_budget_bytes: int = 4 * MIB
    connection_budget_bytes: int = 16 * MIB
    stall_timeout_s: float = 30.0
    progress_bytes: int = 256 * KIB
    answer_timeout_s: float = 60.0
    stream_hard_bytes: int = 64 * MIB
    connection_hard_bytes: int = 256 * MIB

    body_window_bytes: int = 256 * KIB
    """How much of a body is received before somebody reads it; HTTP/2: the initial window of a stream."""
    upload_budget_bytes: int = 16 * MIB
    """HTTP/2: how much the bodies of one connection may take beyond their initial windows."""

    max_concurrent_streams: int = 250
    resets_per_s: float = 100.0
    """HTTP/2: sustained rate of reset streams (CVE-2023-44487); `resets_burst` may come at once."""
    resets_burst: int = 1000
    control_frames_per_s: float = 500.0
    """HTTP/2: sustained rate of useless frames per second; `control_burst` may come at once.

    They are SETTINGS, PING, PRIORITY, RST_STREAM, unknown, nearly empty DATA, and WINDOW_UPDATE beyond four for each
    request and DATA frame.
    """
    control_burst: int = 2000


class Sharing(Protocol):
    """How processes share the connections that arrive at listening sockets they have in common."""

    def report(self, connections: int) -> None:
        """Told every second how many connections this process has."""
        ...

    def stop(self) -> None:
        """Told when this process accepts no more."""
        ...

    def is_ahead(self, connections: int) -> bool:
        """Whether to leave the next connection to another process, for a moment."""
        ...

    def must_wait(self) -> bool:
        """Whether it is to be left to another process however long that takes."""
        ...


@dataclass(frozen=True, slots=True)
class ServingConfig:
    """The settings of a listener.

    `port` 0 takes any free port. `sockets` are already bound (inherited) and replace host and port; `sharing` is for
    those that other processes accept from too. Without `tls` the listener serves plain HTTP, with HTTP/2 for clients
    that begin with its preface. `reuse_port` lets several processes listen on the same port (SO_REUSEPORT).
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    sockets: tuple[socket.socket, ...] = ()
    sharing: Sharing | None = None
    http2: bool = True
    backlog: int = 1024
    reuse_port: bool = False
    sweep_interval_s: float = 1.0
    """The interval at which time limits are checked; they are late by at most this much."""
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
