"""Where webhooks behind Services are, as the Services and endpoints that are stored here say.

There is no proxy of a cluster network here, so endpoints come first; a cluster IP is for those who run one.
See also: ``client.webhook_calls``, which asks.
Source: apimachinery's aggregator ``pkg/apiserver/resolvers``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oarlock.client.client import Client
from oarlock.client.transport import TransportError
from oarlock.client.webhook_calls import ServiceReference, WebhookError
from oarlock.meta.errors import StatusError

__all__ = ["StoredServices"]

Tree = Mapping[str, Any]

SERVICE = "v1/Service"
SLICES = "discovery.k8s.io/v1/EndpointSlice"
ENDPOINTS = "v1/Endpoints"
NO_ADDRESS = ("", "None")


class StoredServices:
    """Finds Services through a client of the server itself. Without one, which is before it serves, none is found."""

    def __init__(self) -> None:
        self.client: Client | None = None

    async def __call__(self, service: ServiceReference) -> str:
        """``host:port``. Raises `WebhookError`."""
        if self.client is None:
            raise WebhookError(f'service "{service.name}" is not known yet: the server is starting')
        try:
            return await self._address(self.client, service)
        except (StatusError, TransportError) as error:
            raise WebhookError(f'service "{service.name}" cannot be read: {error}') from None

    async def _address(self, client: Client, service: ServiceReference) -> str:
        found = await _found(client, SERVICE, service)
        if found is None:
            raise WebhookError(f'service "{service.name}" not found')
        spec = found.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return f"{spec.get('externalName')}:{service.port}"
        port = next((one for one in spec.get("ports") or () if one.get("port") == service.port), None)
        if port is None:
            raise WebhookError(f'no service port {service.port} found for service "{service.name}"')
        endpoint = await _endpoint(client, service, port)
        if endpoint:
            return endpoint
        cluster_ip = spec.get("clusterIP") or ""
        if cluster_ip in NO_ADDRESS:
            raise WebhookError(f'no endpoints available for service "{service.name}"')
        return _joined(cluster_ip, service.port)


async def _found(client: Client, kind: str, service: ServiceReference) -> Tree | None:
    try:
        found: Tree = await client.get(kind, service.name, namespace=service.namespace)
    except StatusError as error:
        if error.code == 404:
            return None
        raise
    return found


async def _endpoint(client: Client, service: ServiceReference, port: Tree) -> str:
    """The first ready endpoint, of the slices or of the Endpoints of the Service; "" if there is none."""
    name = port.get("name") or ""
    for piece in await _slices(client, service):
        number = _number(piece.get("ports") or (), name)
        for one in piece.get("endpoints") or ():
            ready = (one.get("conditions") or {}).get("ready")
            if number and ready is not False and one.get("addresses"):
                return _joined(one["addresses"][0], number)
    endpoints = await _found(client, ENDPOINTS, service)
    for subset in (endpoints or {}).get("subsets") or ():
        number = _number(subset.get("ports") or (), name)
        for one in subset.get("addresses") or ():
            if number and one.get("ip"):
                return _joined(one["ip"], number)
    return ""


async def _slices(client: Client, service: ServiceReference) -> list[Tree]:
    label = f"kubernetes.io/service-name={service.name}"
    try:
        return [piece async for piece in client.list(SLICES, namespace=service.namespace, label_selector=label)]
    except StatusError as error:
        if error.code == 404:
            return []
        raise


def _number(ports: Any, name: str) -> int:
    return next((one.get("port") or 0 for one in ports if (one.get("name") or "") == name), 0)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
