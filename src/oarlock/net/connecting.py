"""`connect`: a connection to an address, also through a proxy, of the protocol that both ends speak.

What fails is called as in Go's HTTP client, by texts that people search for.
Must not know: who asks, what is asked. See also: `pool`, which keeps connections.
Source: Go's ``net/http`` Transport, ``net`` and ``crypto/x509``; RFC 9110 §9.3.6, CONNECT.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

import httptools

from oarlock.meta.dataclass import dataclass
from oarlock.net.http1 import Http1ClientConnection
from oarlock.net.http2_connection import Http2ClientConnection
from oarlock.net.messages import Header, HttpError
from oarlock.net.url import Url

UNKNOWN_AUTHORITY = "certificate signed by unknown authority"
_HOST_MISMATCH = (62, 63, 64)
"""OpenSSL's verify codes for a certificate of another host, mail address or IP address."""
_EXPIRED = (9, 10)


def failure_text(error: BaseException, address: str, host: str) -> str:
    """What an error means, of a connection to `address`, where `host` was expected; "" if unknown."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_distrust(error, host)}"
    if isinstance(error, ssl.SSLError):
        return f"remote error: tls: {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {address.rpartition(':')[0]}: no such host"
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return f"dial tcp {address}: connect: connection refused"
    if isinstance(error, ConnectionResetError):
        return "EOF"
    if isinstance(error, OSError) and error.errno:
        return f"dial tcp {address}: connect: {os.strerror(error.errno).lower()}"
    return ""


def _distrust(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in _HOST_MISMATCH:
        return f"certificate is not valid for {host}"
    if error.verify_code in _EXPIRED:
        return "certificate has expired or is not yet valid"
    return UNKNOWN_AUTHORITY


try:
    from aiofastnet import create_connection
except ImportError:  # pragma: no cover - a platform without the extension
    create_connection = None  # type: ignore[assignment]


CONNECT_S = 10.0
KEEPALIVE_S = 30.0
PROBE_S, PROBES = 30, 3
"""The kernel asks a silent server for a sign of life so often, and gives up after so many."""

MOST_PROXY_HEAD = 16 * 1024
SOCKS_PORT = 1080


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and the name that its certificate must be for."""

    host: str
    port: int
    server_name: str = ""

    @property
    def text(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HttpProxy:
    """A proxy that leads to servers. `tls` is for a proxy whose URL begins with https."""

    url: Url
    tls: ssl.SSLContext | None = None

    @property
    def tls_name(self) -> str | None:
        """The name that its certificate must be for."""
        return None if self.tls is None else self.url.hostname

    @property
    def lines(self) -> tuple[Header, ...]:
        """The header lines that say who asks it."""
        if self.url.user is None:
            return ()
        pair = f"{self.url.user}:{self.url.password or ''}"
        return (("proxy-authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"),)


class SocksProxy:
    """A SOCKS5 proxy (RFC 1928), which looks up the names of servers too. Needs python-socks; else an ImportError."""

    def __init__(self, url: Url) -> None:
        from python_socks import ProxyError, ProxyType  # noqa: PLC0415 (the package is in the extra "socks")
        from python_socks.async_.asyncio import Proxy  # noqa: PLC0415

        self._proxy = Proxy(ProxyType.SOCKS5, url.hostname, url.port or SOCKS_PORT, url.user, url.password, rdns=True)
        self._refusals = ProxyError

    async def dial(self, address: Address) -> socket.socket:
        """A connection to an address. Raises `HttpError` if the proxy refuses, OSError."""
        try:
            return await self._proxy.connect(address.host, address.port)
        except self._refusals as error:
            raise HttpError(f"the proxy refused: {error}", unsent=True) from None


AnyProxy = HttpProxy | SocksProxy


async def connect(
    address: Address, context: ssl.SSLContext | None, proxy: AnyProxy | None = None
) -> Http1ClientConnection | Http2ClientConnection:
    """A new connection, which has shown that it can be used. Raises `HttpError`."""
    absolute = proxy.lines if isinstance(proxy, HttpProxy) and context is None else None
    chosen = _ChosenProtocol(absolute)
    try:
        async with asyncio.timeout(CONNECT_S):
            await open_connection(lambda: chosen, address, context, proxy)
            connection = chosen.connection
            if isinstance(connection, Http2ClientConnection):
                await connection.ready
    except TimeoutError:
        chosen.abort()
        raise HttpError(f"dial tcp {address.text}: i/o timeout", unsent=True) from None
    except asyncio.CancelledError:
        chosen.abort()  # a handshake that goes on all the same ends with it
        raise
    except HttpError:
        raise
    except (OSError, ValueError) as error:
        why = failure_text(error, address.text, address.server_name) or str(error) or type(error).__name__
        raise HttpError(why, unsent=True) from None
    assert connection is not None
    return connection


async def open_connection(
    make: Callable[[], asyncio.Protocol],
    address: Address,
    context: ssl.SSLContext | None,
    proxy: AnyProxy | None = None,
) -> asyncio.Transport:
    """Connect a protocol, over TLS with a context. Raises OSError, ValueError; `HttpError` if a proxy refuses."""
    loop = asyncio.get_running_loop()
    name = None if context is None else address.server_name or address.host
    if isinstance(proxy, SocksProxy):
        led = await proxy.dial(address)
        transport, _ = await loop.create_connection(make, sock=led, ssl=context, server_hostname=name)
        _set_options(transport.get_extra_info("socket"))
        return transport
    if proxy is None or context is None:
        host, port, tls, expected = address.host, address.port, context, name
        if proxy is not None:
            host, port, tls, expected = proxy.url.hostname, proxy.url.port, proxy.tls, proxy.tls_name
        dial: Callable[..., Awaitable[tuple[asyncio.Transport, asyncio.BaseProtocol]]] = loop.create_connection
        if create_connection is not None and tls is not None:  # without TLS, uvloop's own costs a third less
            dial = partial(create_connection, loop)
        transport, _ = await dial(make, host, port, ssl=tls, server_hostname=expected)
        _set_options(transport.get_extra_info("socket"))
        return transport
    transport, handshake = await loop.create_connection(
        _ProxyHandshake, proxy.url.hostname, proxy.url.port, ssl=proxy.tls, server_hostname=proxy.tls_name
    )
    _set_options(transport.get_extra_info("socket"))
    try:
        assert isinstance(handshake, _ProxyHandshake)
        await handshake.lead_to(address, proxy.lines)
        protocol = make()
        inner = await loop.start_tls(transport, protocol, context, server_hostname=name)
        if inner is None:
            raise ConnectionResetError
        protocol.connection_made(inner)
        return inner
    except BaseException:
        transport.abort()
        raise


class _ChosenProtocol(asyncio.Protocol):
    """Becomes a connection of the protocol that TLS has agreed on."""

    def __init__(self, absolute: tuple[Header, ...] | None) -> None:
        self.connection: Http1ClientConnection | Http2ClientConnection | None = None
        self._absolute = absolute
        self._transport: asyncio.Transport | None = None
        self._aborted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's isn't derived of it
        if self._aborted:
            self._transport.abort()
        tls = transport.get_extra_info("ssl_object")
        agreed = None if tls is None else tls.selected_alpn_protocol()
        made = Http2ClientConnection(KEEPALIVE_S) if agreed == "h2" else Http1ClientConnection(self._absolute)
        self.connection = made
        self._transport.set_protocol(made)
        made.connection_made(transport)

    def abort(self) -> None:
        self._aborted = True
        if self._transport is not None:
            self._transport.abort()


def _set_options(connected: socket.socket | None) -> None:
    """Small requests leave at once, and the kernel asks now and then whether the other end is there."""
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", PROBE_S), ("TCP_KEEPINTVL", PROBE_S), ("TCP_KEEPCNT", PROBES)):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _ProxyHandshake(asyncio.Protocol):
    """Asks a proxy to lead to an address."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._received = 0
        self._status = b""

    async def lead_to(self, address: Address, lines: tuple[Header, ...]) -> None:
        """Raises `HttpError` if it refuses."""
        assert self._transport is not None
        head = [f"CONNECT {address.text} HTTP/1.1", f"host: {address.text}"]
        head += [f"{name}: {value}" for name, value in lines]
        self._transport.write("\r\n".join([*head, "", ""]).encode("latin-1"))
        await self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._answer.done():
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            self._refuse(f"malformed HTTP response: {error}")
        if self._received > MOST_PROXY_HEAD:
            self._refuse("its answer goes on and on")

    def connection_lost(self, error: Exception | None) -> None:
        self._refuse("it closed the connection")

    def on_status(self, status: bytes) -> None:
        self._status += status

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 300:
            self._refuse(f"answered {status} {self._status[:200].decode('latin-1')}")
        elif status >= 200 and not self._answer.done():
            self._answer.set_result(None)

    def _refuse(self, why: str) -> None:
        if not self._answer.done():
            self._answer.set_exception(HttpError(f"the proxy {why}", unsent=True))
            self._answer.exception()  # nobody may wait for it any more
