"""Where the backend of an APIService is: by its URL annotation, or by what is stored of its Service.

See also: ``apps.service_endpoints``, what is looked at.
Source: k8s.io/kube-aggregator ``controllers/status/remote``, the reasons and their texts.
"""

from __future__ import annotations

from oarlock.apps.kinds.apiregistration import URL_ANNOTATION, APIService, ServiceReference
from oarlock.apps.service_endpoints import PortNotFound, ServiceNotFound, find_service
from oarlock.client.client import Client
from oarlock.client.transport import TransportError
from oarlock.meta import errors
from oarlock.meta.dataclass import dataclass
from oarlock.net.connecting import Address
from oarlock.net.url import UrlError, parse_url

__all__ = ["BackendUnavailable", "locate", "url_problem"]

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
