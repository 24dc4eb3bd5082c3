"""`HTTPTransport`: requests over HTTP/1.1 with keep-alive, to the server that a kubeconfig or the pod's files name.

Needs the extra ``oarlock[client]`` (aiohttp). Certificates, tokens and plugins are asked again when they change.
See also: `kubeconfig`, `credentials`.
"""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from oarlock.client.config import ClientConfig
from oarlock.client.credentials import Credential
from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, TransportError, WholeResponse

if TYPE_CHECKING:
    import aiohttp

__all__ = ["HTTPTransport"]

CONNECT_S = 10.0
IDLE_S = 60.0
CONNECTIONS = 100
HEARTBEAT_S = 30.0
"""How often a WebSocket is pinged, so that one whose other end is gone ends too."""
PROBE_S = 30
PROBES = 3
"""A stream whose other end answers none of so many probes, so many seconds apart, has ended."""
MAX_ANSWER_BYTES = 256 * 1024 * 1024
MAX_ERROR_BYTES = 256 * 1024
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
_PIECE_BYTES = 64 * 1024
_WHOLE_BYTES = 256 * 1024


class HTTPTransport:
    """Requests to the server of `config`. Connections are made when they are needed, at most `connections` of them.

    A watch has a connection of its own. An answer that isn't streamed may have `max_answer_bytes`.
    Raises ClientConfigError for a server that is no URL, and when a file that `config` names can't be read.
    """

    def __init__(
        self, config: ClientConfig, *, connections: int = CONNECTIONS, max_answer_bytes: int = MAX_ANSWER_BYTES
    ) -> None:
        try:
            import aiohttp  # noqa: PLC0415 (an extra that only this needs)
        except ImportError:
            raise TransportError("HTTP needs aiohttp: pip install 'oarlock[client]'", sent=False) from None
        self._aiohttp = aiohttp
        self._config = config
        self._base = config.url.base
        self._connections = connections
        self._max_answer_bytes = max_answer_bytes
        self._credential = Credential(config)
        self._session: aiohttp.ClientSession | None = None
        self._stamp: object = None
        self._opening = asyncio.Lock()
        self._retired: list[aiohttp.ClientSession] = []

    async def send(self, request: ClientRequest) -> ClientResponse:
        answer, shown = await self._once(request)
        if answer.status == 401 and await self._credential.renew(shown):
            await answer.close()
            answer, _ = await self._once(request)
        return answer

    async def _once(self, request: ClientRequest) -> tuple[_HTTPResponse, int]:
        """The answer, and which credentials were shown."""
        total = None if request.streams else request.timeout_s
        timeout = self._aiohttp.ClientTimeout(total=total, connect=CONNECT_S, sock_read=request.silence_s)
        try:
            async with asyncio.timeout(request.timeout_s):
                headers = [*request.headers, *await self._credential.headers()]
                shown = self._credential.generation
                session = await self._open()
                response = await session.request(
                    request.method,
                    self._url(request),
                    data=_sendable(request.body),
                    headers=headers,
                    timeout=timeout,
                    allow_redirects=False,
                    proxy=self._config.proxy_url or None,
                    server_hostname=self._config.tls_server_name or None,
                )
        except (self._aiohttp.ClientError, OSError) as error:
            raise self._failure(error, request.timeout_s) from None
        if request.streams and response.connection is not None and response.connection.transport is not None:
            _probe(response.connection.transport.get_extra_info("socket"))
        return self._response(response), shown

    async def connect(self, request: ClientRequest, protocols: Sequence[str]) -> ClientConnection | ClientResponse:
        answer, shown = await self._upgraded(request, protocols)
        if isinstance(answer, ClientResponse) and answer.status == 401 and await self._credential.renew(shown):
            answer, _ = await self._upgraded(request, protocols)
        if isinstance(answer, ClientResponse) and answer.status < 400:
            raise TransportError(f"{self._config.server}: the upgrade was answered with {answer.status}", sent=True)
        return answer

    async def _upgraded(
        self, request: ClientRequest, protocols: Sequence[str]
    ) -> tuple[ClientConnection | ClientResponse, int]:
        """What came of it, and which credentials were shown."""
        shown = 0
        refusals: list[ClientResponse] = []

        async def read_refusal(session: object, context: object, end: aiohttp.TraceRequestEndParams) -> None:
            if end.response.status != 101:  # aiohttp's error has no body, and this is the last moment that there is one
                answer = self._response(end.response)
                refusals.append(WholeResponse(answer.status, answer.headers, await answer.read()))

        trace = self._aiohttp.TraceConfig()
        trace.on_request_end.append(read_refusal)
        try:
            async with asyncio.timeout(request.timeout_s):
                headers = [*request.headers, *await self._credential.headers()]
                shown = self._credential.generation
                connector = (await self._open()).connector
                async with self._aiohttp.ClientSession(
                    connector=connector,
                    connector_owner=False,
                    cookie_jar=self._aiohttp.DummyCookieJar(),
                    trace_configs=[trace],
                ) as session:
                    connection = await session.ws_connect(
                        self._url(request),
                        protocols=protocols,
                        headers=headers,
                        heartbeat=HEARTBEAT_S,
                        proxy=self._config.proxy_url or None,
                        server_hostname=self._config.tls_server_name or None,
                        max_msg_size=MAX_MESSAGE_BYTES,
                    )
        except (self._aiohttp.ClientError, OSError) as error:
            if refusals:
                return refusals[0], shown
            raise self._failure(error, request.timeout_s) from None
        return _WebSocket(connection), shown

    def _response(self, response: aiohttp.ClientResponse) -> _HTTPResponse:
        return _HTTPResponse(response, self._config.server, self._max_answer_bytes, self._aiohttp.ClientError)

    def _failure(self, error: Exception, timeout_s: float | None) -> TransportError:
        """What became of a request that has no answer. One that got no connection wasn't sent."""
        server = self._config.server
        if isinstance(error, self._aiohttp.ConnectionTimeoutError):
            why = f"no connection within {CONNECT_S:g} s; at most {self._connections} are open at a time"
            return TransportError(f"{server}: {why}", sent=False)
        unsent = isinstance(error, self._aiohttp.ClientConnectorError | self._aiohttp.ClientProxyConnectionError)
        if isinstance(error, TimeoutError):
            return TransportError(f"{server}: no answer within {timeout_s} s", sent=True)
        if isinstance(error, self._aiohttp.ClientHttpProxyError):  # its text has the proxy's URL, with the password
            return TransportError(f"{server}: the proxy answered {error.status} {error.message}", sent=False)
        return TransportError(f"{server}: {str(error) or type(error).__name__}", sent=not unsent)

    async def close(self) -> None:
        session, self._session = self._session, None
        for retired in (*self._retired, *([session] if session is not None else [])):
            await retired.close()
        self._retired.clear()

    def _url(self, request: ClientRequest) -> Any:
        from yarl import URL  # noqa: PLC0415 (comes with aiohttp)

        query = f"?{urlencode(request.query)}" if request.query else ""
        return URL(f"{self._base}{request.path}{query}", encoded=True)

    async def _open(self) -> aiohttp.ClientSession:
        """The session; another one when the files with certificates have changed, so that nothing is cut."""
        if self._session is not None and self._credential.stamp() == self._stamp:
            return self._session
        async with self._opening:  # one session, however many requests come before it is there
            return await self._opened()

    async def _opened(self) -> aiohttp.ClientSession:
        stamp = self._credential.stamp()
        if self._session is None or stamp != self._stamp:
            tls = await asyncio.to_thread(self._credential.tls)
            if self._session is not None:
                self._retired.append(self._session)
                for retired in self._retired[:-4]:
                    self._retired.remove(retired)
                    await retired.close()
            connector = self._aiohttp.TCPConnector(
                ssl=tls if tls is not None else True, limit=self._connections, keepalive_timeout=IDLE_S
            )
            self._session = self._aiohttp.ClientSession(connector=connector, cookie_jar=self._aiohttp.DummyCookieJar())
            self._stamp = stamp
        return self._session


class _HTTPResponse(ClientResponse):
    """`broken` is what reading may raise besides an OSError."""

    def __init__(self, response: aiohttp.ClientResponse, server: str, max_bytes: int, broken: type[Exception]) -> None:
        self.status = response.status
        self.headers = _headers(response)
        self._response = response
        self._server = server
        self._max_bytes = max_bytes
        self._broken: tuple[type[Exception], ...] = (broken, OSError, ValueError, EOFError)

    async def read(self) -> bytes:
        """The body; of an error no more than somebody would read."""
        refused = self.status >= 300
        limit = MAX_ERROR_BYTES if refused else self._max_bytes
        data = bytearray()
        try:
            async with aclosing(self.chunks()) as chunks:
                async for chunk in chunks:
                    data += chunk
                    if len(data) > limit and not refused:
                        why = "ask for smaller pages, or give HTTPTransport a larger max_answer_bytes"
                        raise TransportError(f"{self._server}: an answer of more than {limit} bytes: {why}", sent=True)
                    if len(data) > limit:
                        break
        finally:
            self._response.close()  # unless it is whole: then the connection has been given back
        return bytes(data[:limit])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.content.iter_chunked(_PIECE_BYTES):
                yield chunk
        except self._broken as error:
            why = "nothing came in time" if isinstance(error, TimeoutError) else error or type(error).__name__
            raise TransportError(f"{self._server}: the answer broke off: {why}", sent=True) from None

    async def close(self) -> None:
        self._response.close()


def _sendable(body: bytes) -> bytes | io.BytesIO | None:
    """A body as aiohttp takes it: a large one is sent in pieces, between which others have their turn."""
    return io.BytesIO(body) if len(body) > _WHOLE_BYTES else body or None


def _probe(connected: Any) -> None:
    """Let the kernel ask now and then whether the other end is there: a stream may be silent for hours."""
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", PROBE_S), ("TCP_KEEPINTVL", PROBE_S), ("TCP_KEEPCNT", PROBES)):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _headers(response: aiohttp.ClientResponse) -> Mapping[str, str]:
    """Lines of one name joined, names in lower case."""
    headers: dict[str, str] = {}
    for line, value in response.headers.items():
        name = line.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


class _WebSocket(ClientConnection):
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.protocol = socket.protocol or ""
        self._socket = socket

    async def send(self, message: bytes) -> None:
        try:
            await self._socket.send_bytes(message)
        except OSError as error:
            raise TransportError(f"the connection has ended: {error}", sent=True) from None

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if isinstance(message.data, bytes):
            return message.data
        if isinstance(message.data, Exception):
            raise TransportError(f"the connection broke off: {message.data}", sent=True)
        return message.data.encode() if isinstance(message.data, str) else None

    async def close(self) -> None:
        await self._socket.close()
