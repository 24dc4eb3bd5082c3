"""`AggregatedVersion`: a group and version that a backend serves: its requests, and what it tells of itself.

See also: ``controllers.api_services.forwarding``, which keeps one for each remote APIService;
`documents`, what is fetched.
"""

from __future__ import annotations

import asyncio
import ssl

from oarlock.apps.aggregation.forwarding.fetch import Fetched, fetch
from oarlock.apps.aggregation.forwarding.forward import forward
from oarlock.apps.aggregation.locations import BackendUnavailable, locate
from oarlock.apps.aggregation.trust import BackendTrust
from oarlock.apps.kinds.apiregistration import APIService
from oarlock.client.client import Client
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.net.connecting import Address
from oarlock.net.messages import HttpError
from oarlock.net.pool import HTTP1, HttpPool
from oarlock.server.filters.plain import plain

__all__ = ["AVAILABLE", "AggregatedVersion"]

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
