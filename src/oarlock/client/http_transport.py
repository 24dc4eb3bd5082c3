"""`HTTPTransport`: requests to the server that a kubeconfig or the pod's files name, over HTTP/2 or HTTP/1.1.

Certificates, tokens and plugins are used anew when they change. See also: `login.credentials`; ``net.pool``.
"""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Unpack
from urllib.parse import urlencode

from wsproto.utilities import generate_accept_token, generate_nonce

from oarlock.client.client import Client
from oarlock.client.keywords import ClientKeywords
from oarlock.client.login.credentials import Credential, CredentialTls
from oarlock.client.login.kubeconfig import SOCKS, ClientConfig, ClientConfigError, load_config
from oarlock.client.requests import identity_lines
from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, TransportError
from oarlock.client.websocket import WebSocket
from oarlock.net.connecting import Address, AnyProxy, HttpProxy, SocksProxy
from oarlock.net.messages import Header, HttpError, HttpRequest, HttpResponse
from oarlock.net.pool import HTTP1, HttpPool, PoolLimits
from oarlock.net.trust import trusting
from oarlock.net.url import UrlError, parse_url

CONNECT_S = 10.0
CONNECTIONS = 100
HEARTBEAT_S = 30.0
"""How often a WebSocket is pinged, so that one whose other end is gone ends too."""
MAX_ANSWER_BYTES = 256 * 1024 * 1024
MAX_ERROR_BYTES = 256 * 1024
_PIECE_BYTES = 64 * 1024
_GZIP = 31
"""What zlib calls it."""


class HTTPTransport:
    """Sends requests to the server of `config`. With HTTP/2 all requests and watches share one connection.

    A request that impersonates nobody acts as the user that `config` impersonates.

    At most `connections` requests are in progress at a time, besides watches, exec and the like. `max_answer_bytes` is
    the limit for an answer that isn't streamed. Raises ClientConfigError if the server isn't a valid URL.
    """

    def __init__(
        self, config: ClientConfig, *, connections: int = CONNECTIONS, max_answer_bytes: int = MAX_ANSWER_BYTES
    ) -> None:
        url = config.url
        self._server = config.server
        self._max_answer_bytes = max_answer_bytes
        self._credential = Credential(config)
        self._acts_as = () if config.user is None else identity_lines(config.user)
        try:
            self._host, self._prefix = url.sent_host, url.path.rstrip("/")
        except UrlError as error:
            raise ClientConfigError(str(error)) from None
        self._address = Address(url.hostname, url.port, config.tls_server_name or url.hostname)
        limits = PoolLimits(connections, idle=connections, use_s=math.inf, place_s=CONNECT_S)
        proxy = _proxy(config)
        self._pool = HttpPool(CredentialTls(self._credential), limits, proxy=proxy)
        self._upgrades = HttpPool(CredentialTls(self._credential), limits, protocols=(HTTP1,), proxy=proxy)

    async def send(self, request: ClientRequest) -> ClientResponse:
        deadline = None
        if request.timeout_s is not None and not request.streams:
            deadline = asyncio.get_running_loop().time() + request.timeout_s
        packed = (*request.headers, ("accept-encoding", "gzip"))
        response = await self._ask(self._pool, request, packed)
        return _HTTPResponse(response, self._server, self._max_answer_bytes, deadline, request.silence_s)

    async def connect(self, request: ClientRequest, protocols: Sequence[str]) -> ClientConnection | ClientResponse:
        nonce = generate_nonce()
        lines = (
            *request.headers,
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", nonce.decode()),
            ("sec-websocket-protocol", ", ".join(protocols)),
        )
        response = await self._ask(self._upgrades, request, lines, upgrade=True)
        if response.status >= 400:
            return _HTTPResponse(response, self._server, MAX_ERROR_BYTES, None, request.timeout_s)
        agreed = response.header("sec-websocket-protocol")
        if response.status != 101 or response.header("sec-websocket-accept") != generate_accept_token(nonce).decode():
            response.close()
            raise TransportError(f"{self._server}: the upgrade was answered with {response.status}", sent=True)
        return WebSocket(response, agreed if agreed in protocols else "", HEARTBEAT_S)

    async def _ask(
        self, pool: HttpPool, request: ClientRequest, lines: Sequence[Header], *, upgrade: bool = False
    ) -> HttpResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        target = f"{self._prefix}{request.path}{query}" or "/"
        lasting = request.streams or upgrade
        if self._acts_as and not any(name == "impersonate-user" for name, _ in request.headers):
            lines = (*lines, *self._acts_as)

        async def send(credentials: Sequence[Header]) -> HttpResponse:
            headers = tuple((name, value.encode().decode("latin-1")) for name, value in (*lines, *credentials))
            outgoing = HttpRequest(request.method, self._host, target, headers, request.body, upgrade=upgrade)
            return await pool.ask(self._address, outgoing, lasting=lasting)

        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._credential.ask(send)
        except HttpError as error:
            raise TransportError(f"{self._server}: {error}", sent=not error.unsent) from None
        except TimeoutError:
            raise TransportError(f"{self._server}: no answer within {request.timeout_s} s", sent=True) from None

    async def close(self) -> None:
        self._pool.close()
        self._upgrades.close()
        await asyncio.sleep(0)  # sockets are closed in the next turn of the loop


def _proxy(config: ClientConfig) -> AnyProxy | None:
    """Raises ClientConfigError."""
    if not config.proxy_url:
        return None
    try:
        url = parse_url(config.proxy_url)
        if url.scheme in SOCKS:
            return SocksProxy(url)
        return HttpProxy(url, trusting(config.ca_data, file=config.ca_file) if url.tls else None)
    except UrlError as error:
        raise ClientConfigError(f"proxy-url: {error.reason}") from None
    except ImportError:
        raise ClientConfigError("proxy-url: a SOCKS proxy needs python-socks: pip install 'oarlock[socks]'") from None
    except (OSError, ValueError) as error:
        raise ClientConfigError(f"proxy-url: no CA certificate: {error}") from None


class _HTTPResponse(ClientResponse):
    """All of it is here by `deadline`, or each piece within `silence_s` of the one before."""

    def __init__(
        self, response: HttpResponse, server: str, max_bytes: int, deadline: float | None, silence_s: float | None
    ) -> None:
        self.status = response.status
        headers: dict[str, str] = {}
        for name, value in response.headers:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self.headers = headers
        self._response = response
        self._server = server
        self._max_bytes = max_bytes
        self._deadline = deadline
        self._silence_s = silence_s

    async def read(self) -> bytes:
        """The body; that of an error only up to a bounded length."""
        refused = self.status >= 300
        limit = MAX_ERROR_BYTES if refused else self._max_bytes
        data = bytearray()
        try:
            async with aclosing(self.chunks()) as chunks:
                async for chunk in chunks:
                    data += chunk
                    if len(data) > limit:
                        break
        finally:
            self._response.close()
        if len(data) > limit and not refused:
            why = "ask for smaller pages, or give HTTPTransport a larger max_answer_bytes"
            raise TransportError(f"{self._server}: an answer of more than {limit} bytes: {why}", sent=True)
        return bytes(data[:limit])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        packing = self.headers.get("content-encoding", "identity").lower()
        unpacker = zlib.decompressobj(_GZIP) if packing in ("gzip", "x-gzip") else None
        try:
            if unpacker is None and packing != "identity":
                raise ValueError(f"its Content-Encoding {packing} wasn't requested")
            while piece := await self._piece():
                while piece and unpacker is not None:
                    if unpacked := unpacker.decompress(piece, _PIECE_BYTES):
                        yield unpacked
                    piece = unpacker.unconsumed_tail
                if piece:
                    yield piece
            if unpacker is not None and not unpacker.eof:
                raise ValueError("the compressed body ends early")
        except TimeoutError:
            raise self._broken("no data arrived in time") from None
        except (HttpError, ValueError, zlib.error) as error:
            raise self._broken(str(error)) from None

    async def _piece(self) -> bytes:
        until = self._deadline
        if self._silence_s is not None:
            until = asyncio.get_running_loop().time() + self._silence_s
        async with asyncio.timeout_at(until):
            return await self._response.piece()

    def _broken(self, why: str) -> TransportError:
        return TransportError(f"{self._server}: the answer was interrupted: {why}", sent=True)

    async def close(self) -> None:
        self._response.close()


def connect(
    config: ClientConfig | str | Path | None = None, *, context: str = "", **settings: Unpack[ClientKeywords]
) -> Client:
    """A client of the server that `config` names: the path of a kubeconfig, or a `ClientConfig`.

    Without `config` it looks where kubectl looks: ``KUBECONFIG``, a pod's service account, ``~/.kube/config``. The
    keywords are those of `Client`. The impersonated `user` is by default that of the kubeconfig. Opens no connection
    before the first request. Raises ClientConfigError.
    """
    if not isinstance(config, ClientConfig):
        config = load_config(config, context=context)
    return Client(HTTPTransport(config), **settings)
