"""`WebhookCalls`: sends reviews to the webhooks that objects of the API name, over connections that are kept.

A webhook is somebody else's program. Each call has a deadline, its answer a bound in bytes, and so many calls of one
webhook may be under way that one that hangs leaves the server to others.
Must not know: what is asked. See also: `webhook_errors`, what failures are called; `http_transport`.
Source: the ``clientConfig`` of webhooks in apiextensions.k8s.io/v1 and admissionregistration.k8s.io/v1.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from oarlock.client.config import ClientConfig, ClientConfigError
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.transport import ClientRequest, ClientResponse, TransportError
from oarlock.client.webhook_errors import answer_text, failure_text

__all__ = ["FindService", "ServiceReference", "WebhookCalls", "WebhookError", "WebhookTarget"]

MOST_CALLS = 100
"""How many calls of one webhook are under way at a time; the next is refused at once."""

MOST_SERVERS = 128
"""To how many servers connections are kept; those of the one that was called least recently are closed first."""

CONNECTIONS = 16
MOST_ERROR_BYTES = 64 * 1024
_HEADERS = (("accept", "application/json, */*"), ("content-type", "application/json"))


class WebhookError(Exception):
    """A call got no answer that can be used. The text is what to tell of it.

    `busy` says that the webhook wasn't called, because too many other calls wait for it.
    """

    def __init__(self, why: str, *, busy: bool = False) -> None:
        super().__init__(why)
        self.busy = busy


@dataclass(frozen=True, slots=True)
class ServiceReference:
    """The Service of a webhook, and the path there."""

    namespace: str
    name: str
    port: int = 443
    path: str = ""

    @property
    def host(self) -> str:
        return f"{self.name}.{self.namespace}.svc"


FindService = Callable[[ServiceReference], Awaitable[str]]
"""Finds where a Service is: ``host:port``. Raises `WebhookError`."""


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Where a webhook is: at a URL, or behind a Service. With `ca_data` (PEM) only those CAs are trusted."""

    url: str
    service: ServiceReference | None = None
    ca_data: bytes = field(default=b"", repr=False)

    @staticmethod
    def of(url: str, service: ServiceReference | None, ca_data: bytes) -> WebhookTarget:
        """The target that a ``clientConfig`` names, by a URL or by a Service. `ca_data` is its CA bundle, decoded."""
        if service is not None:
            slash = "/" if service.path and not service.path.startswith("/") else ""
            url = f"https://{service.host}:{service.port}{slash}{service.path}"
        return WebhookTarget(url, service, ca_data)


_ServerKey = tuple[str, bytes, str]


class _Server:
    """The connections to one server. `calls` is the number under way."""

    def __init__(self, config: ClientConfig) -> None:
        self.transport = HTTPTransport(config, connections=CONNECTIONS)
        self.calls = 0


class WebhookCalls:
    """Calls of webhooks from one event loop. `find_service` finds those that are behind Services."""

    def __init__(self, find_service: FindService) -> None:
        self._find_service = find_service
        self._servers: OrderedDict[_ServerKey, _Server] = OrderedDict()

    async def post(self, target: WebhookTarget, body: bytes, *, timeout_s: float, most_bytes: int) -> bytes:
        """The body of a successful answer of at most `most_bytes`. Raises WebhookError."""
        seconds = f"{math.ceil(timeout_s)}s"  # client-go rounds up what a request has left, too
        try:
            async with asyncio.timeout(timeout_s):
                return await self._posted(target, body, (("timeout", seconds),), timeout_s, most_bytes)
        except TimeoutError:
            raise _of_post(target, seconds, "context deadline exceeded") from None

    async def close(self) -> None:
        """Close all connections."""
        servers, self._servers = self._servers, OrderedDict()
        for server in servers.values():
            await server.transport.close()

    async def _posted(
        self, target: WebhookTarget, body: bytes, query: tuple[tuple[str, str], ...], timeout_s: float, most_bytes: int
    ) -> bytes:
        parts = urlsplit(target.url)
        seconds = query[0][1]
        try:
            address = parts.netloc if target.service is None else await self._find_service(target.service)
        except WebhookError as error:
            raise _of_post(target, seconds, str(error)) from None
        headers = _HEADERS if target.service is None else (*_HEADERS, ("host", parts.netloc))
        server = await self._server(target, f"{parts.scheme}://{address}")
        if server.calls >= MOST_CALLS:
            raise WebhookError(f"{MOST_CALLS} calls of it are waiting for an answer already", busy=True)
        server.calls += 1
        try:
            request = ClientRequest("POST", parts.path, query, headers, body, timeout_s)
            answer = await server.transport.send(request)
            data = await _read(answer, most_bytes if answer.status < 300 else MOST_ERROR_BYTES)
        except TransportError as error:
            # The transport leaves the HTTP client's own error out of what is shown; it is the one that tells why.
            why = failure_text(error.__context__, _with_port(address, parts.scheme), parts.hostname or "")
            raise _of_post(target, seconds, why or str(error)) from None
        except ClientConfigError as error:
            raise _of_post(target, seconds, str(error)) from None
        finally:
            server.calls -= 1
        if not 200 <= answer.status <= 206:
            raise WebhookError(answer_text(answer.status, answer.headers.get("content-type", ""), data))
        return data

    async def _server(self, target: WebhookTarget, url: str) -> _Server:
        name = "" if target.service is None else target.service.host
        key = (url, target.ca_data, name)
        server = self._servers.get(key)
        if server is None:
            server = self._servers[key] = _Server(ClientConfig(url, ca_data=target.ca_data, tls_server_name=name))
        self._servers.move_to_end(key)
        if len(self._servers) > MOST_SERVERS:
            await self._close_one()
        return server

    async def _close_one(self) -> None:
        """Close the connections of the server that was called least recently, of those that aren't being called."""
        oldest = next((key for key, server in self._servers.items() if not server.calls), None)
        if oldest is not None:
            await self._servers.pop(oldest).transport.close()


async def _read(answer: ClientResponse, most_bytes: int) -> bytes:
    data = bytearray()
    try:
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                data += chunk
                if len(data) > most_bytes:
                    if answer.status >= 300:
                        break
                    raise WebhookError(f"the answer has more than {most_bytes} bytes")
    finally:
        await answer.close()
    return bytes(data[:most_bytes])


def _of_post(target: WebhookTarget, seconds: str, why: str) -> WebhookError:
    return WebhookError(f'Post "{target.url}?timeout={seconds}": {why}')


def _with_port(address: str, scheme: str) -> str:
    return address if ":" in address.rpartition("]")[2] else f"{address}:{443 if scheme == 'https' else 80}"
