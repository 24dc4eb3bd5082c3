"""Where webhooks behind Services are, as the Services and endpoints that are stored here say.

See also: ``client.webhooks.calls``, which asks; ``apps.service_endpoints``, what is looked at.
Source: apimachinery's aggregator ``pkg/apiserver/resolvers``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from oarlock.apps.service_endpoints import PortNotFound, ReadyEndpoint, ServiceNotFound, find_service
from oarlock.client.client import Client
from oarlock.client.transport import TransportError
from oarlock.client.webhooks.calls import WebhookError, WebhookService
from oarlock.meta.errors import StatusError

__all__ = ["StoredServices"]


class StoredServices:
    """Finds Services through a client of the server itself. Without one, which is before it serves, none is found.

    Each call goes to one of the ready endpoints, by chance unless `choose` says which, so that one that can't be
    reached is in the way of some calls only.
    """

    def __init__(self, choose: Callable[[Sequence[ReadyEndpoint]], ReadyEndpoint] = random.choice) -> None:
        self._choose = choose
        self.client: Client | None = None

    async def __call__(self, service: WebhookService) -> str:
        """``host:port``. Raises `WebhookError`."""
        if self.client is None:
            raise WebhookError(f'service "{service.name}" is not known yet: the server is starting')
        try:
            return await self._address(self.client, service)
        except (StatusError, TransportError) as error:
            raise WebhookError(f'service "{service.name}" cannot be read: {error}') from None

    async def _address(self, client: Client, service: WebhookService) -> str:
        try:
            found = await find_service(client, service.namespace, service.name, service.port, self._choose)
        except ServiceNotFound:
            raise WebhookError(f'service "{service.name}" not found') from None
        except PortNotFound:
            raise WebhookError(f'no service port {service.port} found for service "{service.name}"') from None
        if found.external is not None:
            return f"{found.external.host}:{found.external.port}"
        if found.endpoint is not None:
            return _joined(found.endpoint.host, found.endpoint.port)
        if not found.cluster_ip:
            raise WebhookError(f'no endpoints available for service "{service.name}"')
        return _joined(found.cluster_ip, service.port)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
