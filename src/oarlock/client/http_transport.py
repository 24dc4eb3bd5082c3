"""`HTTPTransport`: requests over HTTP/1.1 with keep-alive, to the server that a kubeconfig or the pod's files name.

Needs the extra ``oarlock[client]`` (aiohttp). Certificates, tokens and plugins are asked again when they change.
See also: `kubeconfig`, `credentials`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from oarlock.client.config import ClientConfig
from oarlock.client.credentials import Credential
from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, TransportError

if TYPE_CHECKING:
    import aiohttp

__all__ = ["HTTPTransport"]

CONNECT_S = 10.0
IDLE_S = 60.0
CONNECTIONS = 100


class HTTPTransport:
    """Requests to the server of `config`. Connections are made when they are needed, at most `connections` of them.

    Raises ClientConfigError when a file that `config` names can't be read.
    """

    def __init__(self, config: ClientConfig, *, connections: int = CONNECTIONS) -> None:
        try:
            import aiohttp  # noqa: PLC0415 (an extra that only this needs)
        except ImportError:
            raise TransportError("HTTP needs aiohttp: pip install 'oarlock[client]'", sent=False) from None
        self._aiohttp = aiohttp
        self._config = config
        self._connections = connections
        self._credential = Credential(config)
        self._session: aiohttp.ClientSession | None = None
        self._stamp: object = None
        self._retired: list[aiohttp.ClientSession] = []

    async def send(self, request: ClientRequest) -> ClientResponse:
        answer = await self._once(request)
        if answer.status == 401 and await self._credential.renew():
            await answer.close()
            answer = await self._once(request)
        return answer

    async def _once(self, request: ClientRequest) -> _HTTPResponse:
        session = await self._open()
        headers = [*request.headers, *await self._credential.headers()]
        total = None if request.streams else request.timeout_s
        timeout = self._aiohttp.ClientTimeout(total=total, connect=CONNECT_S)
        url = self._url(request)
        try:
            async with asyncio.timeout(request.timeout_s):
                response = await session.request(
                    request.method,
                    url,
                    data=request.body or None,
                    headers=headers,
                    timeout=timeout,
                    allow_redirects=False,
                    proxy=self._config.proxy_url or None,
                    server_hostname=self._config.tls_server_name or None,
                )
        except (self._aiohttp.ClientConnectorError, self._aiohttp.ConnectionTimeoutError) as error:
            raise TransportError(f"{self._config.server}: {error}", sent=False) from None
        except (self._aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{self._config.server}: {error or type(error).__name__}", sent=True) from None
        return _HTTPResponse(response, self._config.server)

    async def connect(self, request: ClientRequest, protocols: Sequence[str]) -> ClientConnection | ClientResponse:
        session = await self._open()
        headers = [*request.headers, *await self._credential.headers()]
        try:
            async with asyncio.timeout(request.timeout_s):
                socket = await session.ws_connect(
                    self._url(request),
                    protocols=protocols,
                    headers=headers,
                    proxy=self._config.proxy_url or None,
                    server_hostname=self._config.tls_server_name or None,
                    max_msg_size=0,
                )
        except self._aiohttp.WSServerHandshakeError:
            return await self.send(request)  # a WebSocket's refusal has no body to read: ask again without the upgrade
        except (self._aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{self._config.server}: {error or type(error).__name__}", sent=True) from None
        return _WebSocket(socket)

    async def close(self) -> None:
        session, self._session = self._session, None
        for one in (*self._retired, *([session] if session is not None else [])):
            await one.close()
        self._retired.clear()

    def _url(self, request: ClientRequest) -> Any:
        from yarl import URL  # noqa: PLC0415 (comes with aiohttp)

        query = f"?{urlencode(request.query)}" if request.query else ""
        return URL(f"{self._config.server.rstrip('/')}{request.path}{query}", encoded=True)

    async def _open(self) -> aiohttp.ClientSession:
        """The session; another one when the files with certificates have changed, so that nothing is cut."""
        stamp = self._credential.stamp()
        if self._session is None or stamp != self._stamp:
            tls = await asyncio.to_thread(self._credential.tls)
            if self._session is not None:
                self._retired.append(self._session)
                for one in self._retired[:-4]:
                    self._retired.remove(one)
                    await one.close()
            connector = self._aiohttp.TCPConnector(
                ssl=tls if tls is not None else True, limit=self._connections, keepalive_timeout=IDLE_S
            )
            self._session = self._aiohttp.ClientSession(connector=connector, auto_decompress=True)
            self._stamp = stamp
        return self._session


class _HTTPResponse(ClientResponse):
    def __init__(self, response: aiohttp.ClientResponse, server: str) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._server = server

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except Exception as error:
            raise self._broken(error) from None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (TimeoutError, OSError, ValueError, EOFError) as error:
            raise self._broken(error) from None

    def _broken(self, error: Exception) -> TransportError:
        return TransportError(f"{self._server}: the answer broke off: {error or type(error).__name__}", sent=True)

    async def close(self) -> None:
        self._response.close()


class _WebSocket(ClientConnection):
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.protocol = socket.protocol or ""
        self._socket = socket

    async def send(self, message: bytes) -> None:
        try:
            await self._socket.send_bytes(message)
        except (OSError, ConnectionError) as error:
            raise TransportError(f"the connection has ended: {error}", sent=True) from None

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if isinstance(message.data, bytes):
            return message.data
        return message.data.encode() if isinstance(message.data, str) else None

    async def close(self) -> None:
        await self._socket.close()
