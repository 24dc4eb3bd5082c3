"""`AggregatedVersion`: a group and version that a backend serves: its requests, and what it tells of itself.

See also: `serving`, which keeps one for each remote APIService; `documents`, what is fetched.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from dataclasses import dataclass

from oarlock.apps.aggregation.certificate import ProxyCertificate
from oarlock.apps.aggregation.forwarding.connection import BackendError
from oarlock.apps.aggregation.forwarding.fetch import Fetched, fetch
from oarlock.apps.aggregation.forwarding.forward import forward, plain
from oarlock.apps.aggregation.forwarding.pool import Address, BackendPool
from oarlock.apps.aggregation.locations import BackendUnavailable, locate
from oarlock.apps.kinds.apiregistration import APIService
from oarlock.client.client import Client
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.errors import StatusError

__all__ = ["AVAILABLE", "AggregatedVersion"]

AVAILABLE = "Available"
NOT_NOW = "service unavailable\n"


@dataclass(frozen=True, slots=True)
class _Trust:
    """What decides which TLS context connections of a backend use."""

    bundle: str | None
    insecure: bool
    certificate: object


class AggregatedVersion:
    """`api_service` may be exchanged while requests are carried out; those go on as they began."""

    def __init__(self, api_service: APIService, client: Client, certificate: ProxyCertificate) -> None:
        self.api_service = api_service
        self._client = client
        self._certificate = certificate
        self._tls: tuple[_Trust, ssl.SSLContext] | None = None
        self._pool = BackendPool(self._context)
        self._address: tuple[APIService, Address] | None = None

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
            one.type == AVAILABLE and one.status == "True" for one in (status.conditions if status is not None else ())
        )

    async def answer(self, state: RequestState) -> Response:
        """Carry out a request that has been authorized."""
        if not self.available:
            return plain(503, NOT_NOW)
        try:
            address = await self._where()
        except (BackendUnavailable, StatusError):
            return plain(503, NOT_NOW)
        return await forward(self._pool, address, state)

    async def ask(self, path: str, accept: str, *, most_bytes: int, timeout_s: float, etag: str = "") -> Fetched:
        """A GET as the aggregator itself. Raises `BackendUnavailable`, `BackendError`, StatusError."""
        try:
            async with asyncio.timeout(timeout_s):
                return await fetch(self._pool, await self._where(), path, accept, most_bytes=most_bytes, etag=etag)
        except TimeoutError:
            raise BackendError(f"no answer within {timeout_s:g} s") from None

    async def moved(self) -> Address:
        """Look anew where the backend is. Raises `BackendUnavailable`, StatusError."""
        self._address = None
        return await self._where()

    def close(self) -> None:
        """Cut all connections."""
        self._pool.close()

    async def _where(self) -> Address:
        if self._address is None or self._address[0] is not self.api_service:
            api_service = self.api_service
            self._address = (api_service, await locate(self._client, api_service))
        return self._address[1]

    def _context(self) -> ssl.SSLContext:
        """The TLS context for new connections. Raises `BackendError`."""
        spec = self.api_service.spec
        trust = _Trust(spec.ca_bundle, spec.insecure_skip_tls_verify, self._certificate.stamp())
        if self._tls is None or self._tls[0] != trust:
            context = _context_for(trust)
            self._certificate.load(context)
            self._tls = (trust, context)
        return self._tls[1]


def _context_for(trust: _Trust) -> ssl.SSLContext:
    if trust.insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    if not trust.bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(trust.bundle).decode())
    except (ssl.SSLError, binascii.Error, ValueError) as error:
        raise BackendError(f"unable to load root certificates: {error}", unsent=True) from None
