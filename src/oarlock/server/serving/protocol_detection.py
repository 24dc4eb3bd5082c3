"""`ProtocolDetector`: chooses the protocol of a new connection.

Over TLS, by ALPN. On a plain connection, an HTTP/2 client begins with its preface ("prior knowledge", RFC 9113 §3.3);
anything else is HTTP/1. See also: `http1.connection`, `http2.connection`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from oarlock.server.serving.certificates.tls import peer_of
from oarlock.server.serving.http1.connection import Http1Connection
from oarlock.server.serving.http2.connection import Http2Connection
from oarlock.server.serving.listener_state import ListenerState, Receiver

__all__ = ["ProtocolDetector"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
TELLING = 3  # no request of HTTP/1 begins with "PRI"


class ProtocolDetector(Receiver):
    """The protocol of a connection until HTTP/1 or HTTP/2 takes over."""

    def __init__(self, listener: ListenerState, secure: bool, http2: bool) -> None:
        self.listener = listener
        self._secure = secure
        self._http2 = http2
        self._transport: Any = None
        self._seen = b""
        self._since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._since = self.listener.monotonic()
        if self._secure:
            tls = transport.get_extra_info("ssl_object")
            self._hand_over(self._http2 and tls.selected_alpn_protocol() == "h2")
        elif self._http2:
            self.listener.add(self)
        else:
            self._hand_over(False)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        length = min(len(self._seen), TELLING)
        if self._seen[:length] != PREFACE[:length]:
            self._hand_over(False)
        elif length == TELLING:
            self._hand_over(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self.listener.remove(self)

    def sweep(self, now: float) -> None:
        if now - self._since > self.listener.limits.header_timeout_s:
            self._transport.close()

    def drain(self) -> None:
        if not self._seen:
            self._transport.close()

    def readers(self) -> tuple[()]:
        return ()

    def abort(self) -> None:
        self._transport.abort()

    def _hand_over(self, http2: bool) -> None:
        listener, transport = self.listener, self._transport
        listener.connections.discard(self)
        peer = peer_of(transport)
        speaks = Http2Connection if http2 else Http1Connection
        protocol = speaks(listener, transport, peer, self._secure, self._since)
        transport.set_protocol(protocol)
        if self._seen:
            protocol.data_received(self._seen)
