"""`LocalTransport`: a client's requests to the server of this process, straight to the handler chain.

Nothing is encrypted or parsed twice; everything else is as over the network: admission, validation, watches, limits.
The user is fixed, by default ``system:apiserver`` of ``system:masters``. See also: ``client.transport``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from oarlock.client.informers.observers import Observers
from oarlock.client.kinds import ResourceRef
from oarlock.client.objects import ListQuery
from oarlock.client.transport import (
    ClientConnection,
    ClientRequest,
    ClientResponse,
    Transport,
    TransportError,
    WholeResponse,
)
from oarlock.client.websocket import WebSocket
from oarlock.endpoints.http import BodySource, BodyTooLarge, Handler, Request, Response
from oarlock.meta.context import Clock, Peer, User
from oarlock.policy.authn.authenticator import Credentials, Identity, authenticated
from oarlock.registry.read.cached_objects import CachedBytes, CachedObjects, selection_of
from oarlock.registry.stored.resource import StoredResource
from oarlock.server.local.streams import WEBSOCKET_HEADERS, BufferedStream, MemoryTunnel

log = logging.getLogger("oarlock.client")
APISERVER = User("system:apiserver", groups=("system:masters",))
FindResource = Callable[[str, str], StoredResource | None]


def _nothing_known() -> object:
    return None


def _all_here(path: str) -> Transport | None:
    return None


_PEER = Peer("127.0.0.1", 1)
_READ_BYTES = 64 * 1024


class _ClientEnd:
    """A `ByteTunnel`."""

    def __init__(self, tunnel: MemoryTunnel) -> None:
        self._tunnel = tunnel

    async def write(self, data: bytes) -> None:
        if not self._tunnel.closed:
            await self._tunnel.send(data)
        if self._tunnel.closed:
            raise ConnectionError("the server has closed it")

    async def piece(self) -> bytes:
        return await self._tunnel.to_client.take()

    def close(self) -> None:
        self._tunnel.leave()


class FixedUser:
    """Authenticates every request as `user`."""

    waits = False

    def __init__(self, user: User) -> None:
        self._identity = Identity(authenticated(user))

    def authenticate_cached(self, headers: Mapping[str, str], peer: Peer) -> Identity | None:
        return self._identity

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        return self._identity


class LocalTransport:
    """Requests to `handle`, a handler chain. `max_body` is how many bytes a request's body may have.

    `find` returns a stored resource by group and plural, for informers; None if there is none. `served_now` is for
    ``client.kinds.CatalogTransport``. `beyond` says by the path which requests go elsewhere.
    """

    def __init__(
        self,
        handle: Handler,
        clock: Clock,
        *,
        max_body: int,
        find: FindResource,
        served_now: Callable[[], object] = _nothing_known,
        beyond: Callable[[str], Transport | None] = _all_here,
    ) -> None:
        self.served_now = served_now
        self._beyond = beyond
        self._handle = handle
        self._clock = clock
        self._max_body = max_body
        self._find = find
        self._streams: set[ClientResponse] = set()
        self._tunnels: set[MemoryTunnel] = set()

    async def send(self, request: ClientRequest) -> ClientResponse:
        elsewhere = self._beyond(request.path)
        if elsewhere is not None:
            return await elsewhere.send(request)
        try:
            async with asyncio.timeout(None if request.streams else request.timeout_s):
                response = await self._handle(self._request(request))
                pieces = response.body
                in_pieces = request.streams and isinstance(pieces, AsyncIterator)
                if response.stream is None and not in_pieces:
                    return await _whole(response)
        except TimeoutError:
            raise TransportError(f"no answer within {request.timeout_s} s", sent=True) from None
        if response.stream is None:
            assert isinstance(pieces, AsyncIterator)
            passed_on = _PassedOnResponse(response, pieces, self._streams.discard)
            self._streams.add(passed_on)
            return passed_on
        stream = BufferedStream(response)
        answer = _StreamedResponse(response, stream, self._streams.discard)
        self._streams.add(answer)
        response.stream(stream)
        return answer

    async def connect(self, request: ClientRequest, protocols: Sequence[str]) -> ClientConnection | ClientResponse:
        lines = [*request.headers, *WEBSOCKET_HEADERS.items(), ("sec-websocket-protocol", ", ".join(protocols))]
        try:
            async with asyncio.timeout(request.timeout_s):
                response = await self._handle(self._request(replace(request, headers=lines)))
                if response.stream is None:
                    return await _whole(response)
        except TimeoutError:
            raise TransportError(f"no answer within {request.timeout_s} s", sent=True) from None
        tunnel = MemoryTunnel(response)
        response.stream(tunnel)
        if response.status != 101:
            tunnel.leave()
            raise TransportError(f"the upgrade was answered with {response.status}", sent=True)
        self._tunnels.add(tunnel)
        tunnel.on_close(lambda: self._tunnels.discard(tunnel))
        return WebSocket(_ClientEnd(tunnel), joined_headers(response.headers).get("sec-websocket-protocol", ""))

    async def close(self) -> None:
        for stream in tuple(self._streams):
            await stream.close()
        for tunnel in tuple(self._tunnels):
            tunnel.leave()

    def cached_objects(
        self, ref: ResourceRef, namespace: str, query: ListQuery, observers: Observers[Any]
    ) -> CachedObjects[Any] | None:
        """See ``informers.informer.CacheTransport``. None for what isn't stored, and for conversions that wait."""
        resource = self._find(ref.group, ref.plural)
        if resource is None or ref.version not in resource.compiled:
            return None
        if resource.served.converter.waits and len(resource.definition.versions) > 1:
            return None
        show = None if ref.projection is None else ref.projection.view
        selection = selection_of(resource, ref.version, query)
        return CachedObjects(resource, ref.version, show, observers, namespace, selection)

    def cached_bytes(
        self, ref: ResourceRef, observers: Observers[Any], read: Callable[[bytes], Any]
    ) -> CachedBytes[Any] | None:
        """See ``client.informers.informer.CacheTransport``. None for what isn't stored here."""
        resource = self._find(ref.group, ref.plural)
        return None if resource is None else CachedBytes(resource, observers, read)

    def _request(self, request: ClientRequest) -> Request:
        async def read() -> bytes:
            if len(request.body) > self._max_body:
                raise BodyTooLarge(self._max_body)
            return request.body

        lines = request.headers
        first: dict[str, str] = {}
        for name, value in lines:
            first.setdefault(name, value)
        query = urlencode(request.query)
        return Request(request.method, request.path, query, first, lines, _PEER, read, self._clock.monotonic())


async def whole_body(response: Response) -> bytes:
    """The body of an answer that doesn't stream, which has then been sent."""
    body, sent = response.body, False
    try:
        if isinstance(body, bytes):
            data = body
        elif isinstance(body, BodySource):
            pieces = []
            while not body.done:
                pieces.append(body.read(_READ_BYTES))
                await asyncio.sleep(0)
            data = b"".join(pieces)
        else:
            data = b"".join([piece async for piece in body])
        sent = True
    finally:
        response.sent(sent)
    return data


async def _whole(response: Response) -> ClientResponse:
    return WholeResponse(response.status, joined_headers(response.headers), await whole_body(response))


class _StreamedResponse(ClientResponse):
    """The client's end of a `BufferedStream`."""

    def __init__(self, response: Response, stream: BufferedStream, ended: Callable[[ClientResponse], None]) -> None:
        self.status = response.status
        self.headers = joined_headers(response.headers)
        self._stream = stream
        self._ended = ended

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while chunk := await self._stream.to_client.take():
            yield chunk
        if self._stream.aborted:
            raise TransportError("the server broke the answer off", sent=True)

    async def close(self) -> None:
        self._stream.abort()
        self._ended(self)


class _PassedOnResponse(ClientResponse):
    """An answer that comes in pieces from elsewhere, as from a backend: each is passed on when it is there."""

    def __init__(
        self, response: Response, pieces: AsyncIterator[bytes], ended: Callable[[ClientResponse], None]
    ) -> None:
        self.status = response.status
        self.headers = joined_headers(response.headers)
        self._response = response
        self._pieces = pieces
        self._ended = ended
        self._open = True

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for piece in self._pieces:
                yield piece
        except Exception as error:
            self._end(sent=False)
            raise TransportError("the server broke the answer off", sent=True) from error
        self._end(sent=True)

    async def close(self) -> None:
        self._end(sent=False)

    def _end(self, *, sent: bool) -> None:
        if self._open:
            self._open = False
            self._response.sent(sent)
            self._ended(self)


def joined_headers(lines: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Header lines by their names in lower case; the values of several of one name are joined."""
    joined: dict[str, str] = {}
    for name, value in lines:
        name = name.lower()
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
