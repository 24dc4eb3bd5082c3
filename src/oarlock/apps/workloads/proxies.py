"""`ClusterProxies`: passes requests on to nodes, to pods, and to the pods behind services.

Backends aren't told who asks, and no credentials of the client get there. An answer may lead on to another path of
the backend: that becomes one behind the subresource. Pages aren't rewritten. Only kubelets' certificates are checked.
See also: ``aggregation.forwarding``, how a request is carried out; ``endpoints.verbs.subresource``, what comes before.
Source: Kubernetes' registries of nodes, pods and services, ``ResourceLocation``; k8s.io/apimachinery ``util/proxy``.
"""

from __future__ import annotations

import asyncio
import ipaddress
import posixpath
import random
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from urllib.parse import quote

from oarlock.apps.aggregation.forward import (
    ask_backend,
    passed_back,
    request_headers_without_user,
    upgrade_of,
)
from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.service_endpoints import PortNotFound, ReadyEndpoint, ServiceNotFound, find_service
from oarlock.apps.workloads.kubelets import Kubelets
from oarlock.client.client import Client
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, NotFound, ServiceUnavailable
from oarlock.meta.json_trees import ReadOnlyTree
from oarlock.meta.kinds import GroupResource
from oarlock.net.connecting import Address
from oarlock.net.messages import HttpError
from oarlock.net.pool import HTTP1, HttpPool, PoolLimits
from oarlock.net.trust import trusting_anybody

_SERVICES: Final = GroupResource("", "services")
_PORTS: Final = {"": 80, "http": 80, "https": 443}
"""The port of each scheme; without a scheme it is http."""

_OF_THE_PATH: Final = "/:@!$&'()*+,;=~"
_OF_THE_QUERY: Final = "".join(map(chr, range(0x21, 0x7F)))
_LOCATION: Final = re.compile(r"(?:(?:[^:/?#]+:)?//([^/?#]*))?([^?#]*)(.*)", re.DOTALL)  # RFC 3986, appendix B
_CROSS_ORIGIN: Final = "access-control-allow-"
"""Whether pages of other origins may read an answer is the server's to say, not a backend's."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where requests go, whether over TLS, and whether to a kubelet, which is shown a certificate."""

    address: Address
    tls: bool = False
    kubelet: bool = False


ResolveHost = Callable[[str], Awaitable[str]]
"""Gives the IP address of a node's address, which may be a name. Raises BadRequest."""


class ClusterProxies:
    """Its connections carry one request each. `resolve` says which addresses of nodes are asked."""

    def __init__(self, late: LateClient, kubelets: Kubelets, resolve: ResolveHost | None = None) -> None:
        self._late = late
        self._kubelets = kubelets
        self._resolve = resolve or ordinary_ip
        limits = PoolLimits(idle=0)
        self._plain = HttpPool(_no_tls, limits, protocols=(HTTP1,))
        self._tls = HttpPool(self._any_certificate, limits, protocols=(HTTP1,))
        self._context: ssl.SSLContext | None = None

    async def of_node(self, state: RequestState, path: str) -> Response:
        """Pass a request on to a node: to its kubelet, unless it names another port."""
        return await self._asked(await locate_node(self._kubelets, state.target.name, self._resolve), state, path)

    async def of_pod(self, state: RequestState, path: str) -> Response:
        """Pass a request on to a pod."""
        backend = await locate_pod(self._late.client, state.target.namespace, state.target.name)
        return await self._asked(backend, state, path)

    async def of_service(self, state: RequestState, path: str) -> Response:
        """Pass a request on to one of the pods behind a service."""
        backend = await locate_service(self._late.client, state.target.namespace, state.target.name)
        return await self._asked(backend, state, path)

    async def _any_certificate(self) -> ssl.SSLContext | None:
        if self._context is None:
            self._context = trusting_anybody()
        return self._context

    async def _asked(self, backend: Destination, state: RequestState, path: str) -> Response:
        request, address = state.request, backend.address
        if not path and request.method in ("GET", "HEAD") and not upgrade_of(request.all_headers):
            query = f"?{request.query}" if request.query else ""
            return Response(301, [("location", f"{request.path}/{query}")])
        cleaned = posixpath.normpath(f"/{path.lstrip('/')}")
        if cleaned != "/" and request.path.endswith("/"):
            cleaned += "/"
        query = f"?{quote(request.query, safe=_OF_THE_QUERY)}" if request.query else ""
        target = f"{quote(cleaned, safe=_OF_THE_PATH)}{query}"
        host = request.headers.get("host", "") or address.text
        try:
            headers = request_headers_without_user(request, request.path, host)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        pool = self._kubelets.pool if backend.kubelet else self._tls if backend.tls else self._plain
        try:
            answer = await ask_backend(pool, address, state, target, host, headers)
        except HttpError as error:
            raise ServiceUnavailable(f"error trying to reach service: {error}") from None
        if isinstance(answer, Response):
            return answer
        prefix = _prefix(state)
        answer.headers = [
            (name, _rewritten(value, prefix, (address.text, host)) if name == "location" else value)
            for name, value in answer.headers
            if not name.startswith(_CROSS_ORIGIN)
        ]
        return passed_back(answer, address.text)


async def locate_node(kubelets: Kubelets, text: str, resolve: ResolveHost) -> Destination:
    """Where a node's kubelet listens, or what else does at the given port. Raises StatusError."""
    scheme, name, port = split_name("node", text)
    kubelet = (await kubelets.find(name)).address
    number = _number("node", text, port) if port else kubelet.port
    address = Address(await resolve(kubelet.host), number, kubelet.server_name)
    if number == kubelet.port:
        return Destination(address, tls=True, kubelet=True)
    return Destination(address, scheme == "https")


async def ordinary_ip(host: str) -> str:
    """The first address of a host, if all of them are ordinary ones. Raises BadRequest."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        raise BadRequest(f"lookup {host}: no such host") from None
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses:
        raise BadRequest("no addresses for hostname")
    if not all(map(_is_ordinary, addresses)):
        raise BadRequest("address not allowed")
    return addresses[0]


async def locate_pod(client: Client, namespace: str, text: str) -> Destination:
    """Where a pod listens: at the given port, else at the first of its containers. Raises StatusError."""
    scheme, name, port = split_name("pod", text)
    pod: ReadOnlyTree = await client.get("v1/Pod", name, namespace=namespace)
    ports = (entry for container in at(pod, "spec.containers", ()) for entry in container.get("ports") or ())
    number = _number("pod", text, port) if port else next((entry["containerPort"] for entry in ports), _PORTS[scheme])
    ip = at(pod, "status.podIP") or ""
    if not _is_ordinary(ip):
        raise BadRequest("address not allowed")
    return Destination(Address(ip, number), scheme == "https")


async def locate_service(client: Client, namespace: str, text: str) -> Destination:
    """Where one of the pods behind a service listens. Its port is given by number or name. Raises StatusError."""
    scheme, name, port = split_name("service", text)
    numbered = port.isascii() and port.isdecimal()
    try:
        found = await find_service(client, namespace, name, int(port[:9]) if numbered else port)
    except ServiceNotFound:
        raise NotFound(_SERVICES, name) from None
    except PortNotFound:
        if numbered:
            raise ServiceUnavailable(f'no service port {port} found for service "{name}"') from None
        raise ServiceUnavailable(f'no endpoints available for service "{text}"') from None
    endpoint = await _of_a_pod(client, namespace, found.ready)
    if endpoint is None:
        raise ServiceUnavailable(f'no endpoints available for service "{text}"')
    return Destination(Address(endpoint.host, endpoint.port), scheme == "https")


async def _of_a_pod(client: Client, namespace: str, ready: Sequence[ReadyEndpoint]) -> ReadyEndpoint | None:
    """A ready endpoint that is a pod with this very address, any of them; None if none is.

    A user who may write EndpointSlices must not be able to direct the server to other addresses.
    """
    for endpoint in random.sample(ready, len(ready)):
        if endpoint.pod:
            try:
                pod: ReadOnlyTree = await client.get("v1/Pod", endpoint.pod, namespace=namespace)
            except NotFound:
                continue
            if endpoint.host in {at(pod, "status.podIP"), *(entry.get("ip") for entry in at(pod, "status.podIPs", ()))}:
                return endpoint
    return None


def split_name(what: str, text: str) -> tuple[str, str, str]:
    """Scheme, name and port of ``name``, ``name:port`` or ``scheme:name:port``; empty what isn't there.

    Raises BadRequest.
    """
    parts = text.split(":")
    scheme, name, port = ("", *parts, "")[:3] if len(parts) < 3 else (parts[0], parts[1], parts[2])
    if len(parts) > 3 or scheme not in _PORTS or not name:
        raise BadRequest(f'invalid {what} request "{text}"')
    return scheme, name, port


def _number(what: str, text: str, port: str) -> int:
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 1 << 16):
        raise BadRequest(f'invalid {what} request "{text}"')
    return int(port)


def _is_ordinary(ip: str) -> bool:
    """Whether it is an address of one machine, and not one that means this machine or its neighbours on a link."""
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    special = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    return not special and str(address) != "255.255.255.255"


def _prefix(state: RequestState) -> str:
    """The path of the subresource, which stands before the backend's own paths."""
    target = state.target
    place = f"namespaces/{target.namespace}/" if target.namespace else ""
    return f"/api/{target.version}/{place}{target.resource}/{target.name}/{target.subresource}"


def _rewritten(location: str, prefix: str, own: Sequence[str]) -> str:
    """A location at the backend as one behind the subresource; any other stays as it is."""
    found = _LOCATION.fullmatch(location)
    assert found is not None
    host, path, rest = found.groups(default="")
    if (host and host not in own) or not path.startswith("/"):
        return location
    if path != prefix and not path.startswith(f"{prefix}/"):
        path = prefix + posixpath.normpath(f"/{path.lstrip('/')}").rstrip("/") + ("/" if path.endswith("/") else "")
    return path + rest


async def _no_tls() -> ssl.SSLContext | None:
    return None
