"""Where the backend of an APIService is: by its URL annotation, or by what is stored of its Service.

There is no proxy of a cluster network here, so endpoints come first; a cluster IP is for those who run one.
Source: k8s.io/kube-aggregator ``controllers/status/remote``, the reasons and their texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from oarlock.apps.aggregation.forwarding.pool import Address
from oarlock.apps.kinds.apiregistration import URL_ANNOTATION, APIService, ServiceReference
from oarlock.client.client import Client
from oarlock.meta import errors

__all__ = ["BackendUnavailable", "locate", "url_problem"]

Tree = Mapping[str, Any]

HTTPS = 443
SERVICE = "v1/Service"
SLICES = "discovery.k8s.io/v1/EndpointSlice"
NO_ADDRESS = ("", "None")


@dataclass(slots=True)
class BackendUnavailable(Exception):
    """The backend can't be reached: the reason and the message of the condition Available."""

    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


def url_problem(url: str) -> str:
    """What is wrong with the URL of a backend, empty if nothing is."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme != "https" or not parts.hostname or port == 0:
        return "must be https://HOST:PORT"
    return "" if parts.path in ("", "/") and not parts.query and not parts.username else "must have no path, no query"


async def locate(client: Client, api_service: APIService) -> Address:
    """Where requests for a remote APIService go. Raises `BackendUnavailable`, StatusError."""
    service = api_service.spec.service
    assert service is not None
    name = f"{service.name}.{service.namespace}.svc"
    url = api_service.metadata.annotations.get(URL_ANNOTATION, "")
    if url:
        if url_problem(url):
            raise BackendUnavailable("InvalidURL", f"the annotation {URL_ANNOTATION}: {url!r} {url_problem(url)}")
        parts = urlsplit(url)
        return Address(parts.hostname or "", parts.port or HTTPS, name)
    return await _of_service(client, service, name)


async def _of_service(client: Client, service: ServiceReference, name: str) -> Address:
    shown, port = f'service/{service.name} in "{service.namespace}"', service.port or HTTPS
    try:
        stored: Tree = await client.get(SERVICE, service.name, namespace=service.namespace)
    except errors.NotFound:
        raise BackendUnavailable("ServiceNotFound", f"{shown} is not present") from None
    spec = stored.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return Address(str(spec.get("externalName", "")), port, name)
    wanted = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
    if wanted is None:
        raise BackendUnavailable("ServicePortError", f"{shown} is not listening on port {port}")
    label = f"kubernetes.io/service-name={service.name}"
    slices = [one async for one in client.list(SLICES, namespace=service.namespace, label_selector=label)]
    port_name = wanted.get("name") or ""
    ready = next(_ready(slices, port_name), None)
    if ready is not None:
        return Address(ready[0], ready[1], name)
    cluster_ip = spec.get("clusterIP") or ""
    if not slices:
        raise BackendUnavailable("EndpointsNotFound", f"cannot find endpointslices for {shown}")
    if cluster_ip in NO_ADDRESS or not any(one.get("endpoints") for one in slices):
        text = f'endpoints for {shown} have no addresses with port name "{port_name}"'
        raise BackendUnavailable("MissingEndpoints", text)
    return Address(cluster_ip, port, name)


def _ready(slices: Sequence[Tree], port_name: str) -> Iterator[tuple[str, int]]:
    """The ready endpoints."""
    for one in slices:
        ports = [p.get("port") for p in one.get("ports") or () if (p.get("name") or "") == port_name]
        for endpoint in one.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                yield from ((host, port) for host in endpoint.get("addresses") or () for port in ports if port)
