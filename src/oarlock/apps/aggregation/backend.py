"""`AggregatedVersion`: a group and version that a backend serves: its requests, and what it tells of itself.

See also: ``controllers.api_services.forwarding``, which keeps one for each remote APIService;
`documents`, what is fetched.
"""

from __future__ import annotations

import asyncio
import ssl

from oarlock.apps.aggregation.forward import Fetched, fetch, forward
from oarlock.apps.aggregation.trust import BackendTrust
from oarlock.apps.kinds.apiregistration import URL_ANNOTATION, APIService, ServiceReference
from oarlock.apps.service_endpoints import PortNotFound, ServiceNotFound, find_service
from oarlock.client.client import Client
from oarlock.client.transport import TransportError
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta import errors
from oarlock.meta.dataclass import dataclass
from oarlock.net.connecting import Address
from oarlock.net.messages import HttpError
from oarlock.net.pool import HTTP1, HttpPool
from oarlock.net.url import UrlError, parse_url
from oarlock.server.filters.filter import plain

HTTPS = 443


@dataclass(slots=True)
class BackendUnavailable(Exception):
    """The backend can't be reached: the reason, the message and the status of the condition Available."""

    reason: str
    message: str
    status: str = "False"

    def __str__(self) -> str:
        return self.message


def url_problem(url: str) -> str:
    """What is wrong with the URL of a backend, empty if nothing is."""
    try:
        parsed = parse_url(url)
    except UrlError as error:
        return error.reason
    if not parsed.tls or not parsed.callable:
        return "must be https://HOST:PORT"
    extra = parsed.path not in ("", "/") or parsed.query or parsed.user is not None
    return "must have no path, no query" if extra else ""


async def locate(client: Client, api_service: APIService) -> Address:
    """Where requests for a remote APIService go. Raises `BackendUnavailable`."""
    service = api_service.spec.service
    assert service is not None
    name = f"{service.name}.{service.namespace}.svc"
    url = api_service.metadata.annotations.get(URL_ANNOTATION, "")
    if url:
        if url_problem(url):
            raise BackendUnavailable("InvalidURL", f"the annotation {URL_ANNOTATION}: {url!r} {url_problem(url)}")
        parsed = parse_url(url)
        return Address(parsed.hostname, parsed.port, name)
    return await _of_service(client, service, name)


async def _of_service(client: Client, service: ServiceReference, name: str) -> Address:
    shown, port = f'service/{service.name} in "{service.namespace}"', service.port or HTTPS
    try:
        found = await find_service(client, service.namespace, service.name, port)
    except ServiceNotFound:
        raise BackendUnavailable("ServiceNotFound", f"{shown} is not present") from None
    except PortNotFound:
        raise BackendUnavailable("ServicePortError", f"{shown} is not listening on port {port}") from None
    except (errors.StatusError, TransportError) as error:
        text = f"{shown} cannot be checked due to: {error}"
        raise BackendUnavailable("ServiceAccessError", text, status="Unknown") from None
    reached = found.external or found.endpoint
    if reached is not None:
        return Address(reached.host, reached.port, name)
    if not found.sliced:
        raise BackendUnavailable("EndpointsNotFound", f"cannot find endpointslices for {shown}")
    if not found.cluster_ip or not found.populated:
        text = f'endpoints for {shown} have no addresses with port name "{found.port_name}"'
        raise BackendUnavailable("MissingEndpoints", text)
    return Address(found.cluster_ip, port, name)


AVAILABLE = "Available"
NOT_NOW = "service unavailable\n"
ADDRESS_S = 1.0
"""How long an address is used without another look: a new pod has another one, and its APIService stays the same."""


class AggregatedVersion:
    """`api_service` may be exchanged while requests are carried out; those go on as they began."""

    def __init__(self, api_service: APIService, client: Client, trust: BackendTrust) -> None:
        self.api_service = api_service
        self._client = client
        self._trust = trust
        self._tls: ssl.SSLContext | None = None
        self._pool = HttpPool(self._context, protocols=(HTTP1,))
        self._address: tuple[APIService, Address, float] | None = None

    @property
    def group(self) -> str:
        return self.api_service.spec.group

    @property
    def version(self) -> str:
        return self.api_service.spec.version

    @property
    def available(self) -> bool:
        """What the condition of the APIService says."""
        status = self.api_service.status
        return any(
            condition.type == AVAILABLE and condition.status == "True"
            for condition in (status.conditions if status is not None else ())
        )

    async def answer(self, state: RequestState) -> Response:
        """Carry out a request that has been authorized."""
        if not self.available:
            return plain(503, NOT_NOW)
        try:
            address = await self._where()
        except BackendUnavailable:
            return plain(503, NOT_NOW)
        return await forward(self._pool, address, state)

    async def ask(self, path: str, accept: str, *, most_bytes: int, timeout_s: float, etag: str = "") -> Fetched:
        """A GET as the aggregator itself. Raises `BackendUnavailable`, `HttpError`."""
        try:
            async with asyncio.timeout(timeout_s):
                return await fetch(self._pool, await self._where(), path, accept, most_bytes=most_bytes, etag=etag)
        except TimeoutError:
            raise HttpError(f"no answer within {timeout_s:g} s") from None

    async def moved(self) -> Address:
        """Resolve the backend's address again. Raises `BackendUnavailable`."""
        self._address = None
        return await self._where()

    def close(self) -> None:
        """Cut all connections."""
        self._pool.close()

    async def _where(self) -> Address:
        known, now = self._address, asyncio.get_running_loop().time()
        if known is None or known[0] is not self.api_service or now >= known[2]:
            api_service = self.api_service
            known = self._address = (api_service, await locate(self._client, api_service), now + ADDRESS_S)
        return known[1]

    async def _context(self) -> ssl.SSLContext:
        """The TLS context for new connections. Raises `HttpError`."""
        await self._trust.certificate.ready(self._client)
        self._tls = self._trust.context(self.api_service.spec)
        return self._tls
