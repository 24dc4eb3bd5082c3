"""`find_service`: where a Service leads, as the Services and endpoints that a server stores say.

There is no proxy of a cluster network here, so a ready endpoint comes first; a cluster IP is for those who run one.
Must not know: what is asked there.
See also: ``crds.conversion``, webhooks; ``aggregation.backend``, backends.
Source: Kubernetes API: ``v1.Service``, ``v1.Endpoints``, ``discovery.k8s.io/v1.EndpointSlice``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from oarlock.client.client import Client
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import NotFound
from oarlock.meta.json_trees import ReadOnlyTree

SERVICE = "v1/Service"
SLICES = "discovery.k8s.io/v1/EndpointSlice"
ENDPOINTS = "v1/Endpoints"
NO_ADDRESS = ("", "None")


class ReadyEndpoint(NamedTuple):
    """The host and the port of an endpoint that is ready, and the name of the pod that it is said to be, if any."""

    host: str
    port: int
    pod: str = ""


class ServiceNotFound(LookupError):
    """There is no such Service."""


class PortNotFound(LookupError):
    """The Service has no such port."""


@dataclass(frozen=True, slots=True)
class FoundService:
    """What is known of a Service at one of its ports.

    `external` and `endpoint` are a host and a port, None without: the host of an ``ExternalName``, and one of those
    that are `ready`. `cluster_ip` is empty for a headless Service. `sliced` is whether it has EndpointSlices, and
    `populated` whether there is an endpoint in them, ready or not.
    """

    port_name: str = ""
    external: ReadyEndpoint | None = None
    endpoint: ReadyEndpoint | None = None
    cluster_ip: str = ""
    sliced: bool = False
    populated: bool = False
    ready: Sequence[ReadyEndpoint] = ()


def _first(ready: Sequence[ReadyEndpoint]) -> ReadyEndpoint:
    return ready[0]


async def find_service(
    client: Client,
    namespace: str,
    name: str,
    port: int | str,
    choose: Callable[[Sequence[ReadyEndpoint]], ReadyEndpoint] = _first,
) -> FoundService:
    """A port is given by its number or its name. Several endpoints may be ready: `choose` takes one, the first unless
    given.

    Raises `ServiceNotFound`, `PortNotFound`, StatusError, TransportError.
    """
    service = await _object(client, SERVICE, namespace, name)
    if service is None:
        raise ServiceNotFound(name)
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        number = port if isinstance(port, int) else 0
        return FoundService(external=ReadyEndpoint(str(spec.get("externalName") or ""), number))
    told_by = "port" if isinstance(port, int) else "name"
    wanted = next((entry for entry in spec.get("ports") or () if (entry.get(told_by) or "") == port), None)
    if wanted is None:
        raise PortNotFound(name)
    port_name = wanted.get("name") or ""
    slices = await _slices(client, namespace, name)
    ready = tuple(_ready(slices, port_name))
    if not ready:
        endpoints = await _object(client, ENDPOINTS, namespace, name)
        ready = tuple(_addresses((endpoints or {}).get("subsets") or (), port_name))
    endpoint = choose(ready) if ready else None
    ip = spec.get("clusterIP") or ""
    populated = any(piece.get("endpoints") for piece in slices)
    return FoundService(port_name, None, endpoint, "" if ip in NO_ADDRESS else ip, bool(slices), populated, ready)


async def _object(client: Client, kind: str, namespace: str, name: str) -> ReadOnlyTree | None:
    try:
        found: ReadOnlyTree = await client.get(kind, name, namespace=namespace)
    except NotFound:
        return None
    return found


async def _slices(client: Client, namespace: str, name: str) -> list[ReadOnlyTree]:
    label = f"kubernetes.io/service-name={name}"
    try:
        return [piece async for piece in client.list(SLICES, namespace=namespace, label_selector=label)]
    except NotFound:
        return []  # the kind isn't served


def _ready(slices: Sequence[ReadOnlyTree], port_name: str) -> Iterator[ReadyEndpoint]:
    for piece in slices:
        number = _number(piece.get("ports") or (), port_name)
        for endpoint in piece.get("endpoints") or () if number else ():
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                pod = _pod(endpoint)
                yield from (ReadyEndpoint(host, number, pod) for host in endpoint.get("addresses") or ())


def _addresses(subsets: Sequence[ReadOnlyTree], port_name: str) -> Iterator[ReadyEndpoint]:
    for subset in subsets:
        number = _number(subset.get("ports") or (), port_name)
        for address in subset.get("addresses") or () if number else ():
            if address.get("ip"):
                yield ReadyEndpoint(address["ip"], number, _pod(address))


def _pod(endpoint: ReadOnlyTree) -> str:
    reference = endpoint.get("targetRef") or {}
    return str(reference.get("name") or "") if reference.get("kind") == "Pod" else ""


def _number(ports: Sequence[ReadOnlyTree], port_name: str) -> int:
    return next((port.get("port") or 0 for port in ports if (port.get("name") or "") == port_name), 0)
