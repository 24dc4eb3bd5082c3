"""A server behind a control plane, on one machine: the options it needs, and the APIServices by which it is found.

See also: `serving_commands`, `developing`; ``docs/aggregation.md``.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from oarlock.apps.api_server import APIServer
from oarlock.cli.deploying.objects import api_service
from oarlock.cli.deploying.plan import registrations_of, service_name
from oarlock.client.http_transport import connect
from oarlock.client.login.kubeconfig import ClientConfigError
from oarlock.client.transport import TransportError
from oarlock.meta.errors import StatusError
from oarlock.meta.json_trees import Tree
from oarlock.server.command import CommandError, ExtensionOptions

NAMESPACE = "default"
"""Where the Service would be in a cluster, and where the Secret of the serving certificate is."""

API_SERVICE = "apiregistration.k8s.io/v1/APIService"
URL = "oarlock.dev/url"

REACHED_S = 60.0

Options = TypeVar("Options", bound=ExtensionOptions)


def put_behind(server: APIServer, options: Options, front: Path) -> Options:
    """Register a server at the control plane that a kubeconfig names: the options to serve with.

    The control plane says who users are and what they may do; its admission rules hold. The server keeps its
    certificate in a Secret there, whose authority the APIServices trust. Raises `CommandError`.
    """
    name = service_name(server.name, server.source)
    try:
        asyncio.run(_register(server, name, f"https://{options.bind_address}:{options.secure_port}", front))
    except (ClientConfigError, TransportError, StatusError) as error:
        raise CommandError(f"--behind={front}: {error}") from None
    os.environ["KUBECONFIG"] = str(front.absolute())
    server.reached_by = front
    return replace(
        options,
        cluster_kubeconfig=front,
        authentication_kubeconfig=front,
        authorization_kubeconfig=front,
        serving_certificate_secret=f"{NAMESPACE}/{name}-certificate",
        tls_sans=(*options.tls_sans, f"{name}.{NAMESPACE}.svc"),
    )


async def _register(server: APIServer, name: str, url: str, front: Path) -> None:
    """Apply an APIService for each version. The server itself adds the authority of its certificate."""
    async with connect(front) as client:
        for registration in registrations_of(server):
            wanted = api_service(registration, (NAMESPACE, name), {"annotations": {URL: url}}, {})
            await client.apply(wanted, field_manager=name, force=True)


async def wait_available(front: Path, url: str) -> list[str]:
    """Wait until the control plane has reached the server at a URL: the names of its APIServices, sorted.

    Raises `CommandError` if it ends, or doesn't reach it in time.
    """
    try:
        async with asyncio.timeout(REACHED_S):
            return await _available(front, url)
    except (ClientConfigError, TransportError, StatusError, TimeoutError) as error:
        raise CommandError(f"the control plane hasn't reached the server: {str(error) or 'no answer'}") from None


async def _available(front: Path, url: str) -> list[str]:
    async with connect(front) as client:
        async for event in client.watch(API_SERVICE):
            if _at(event.object, url):
                services = [service async for service in client.list(API_SERVICE) if _at(service, url)]
                if all(_is_available(service) for service in services):
                    return sorted(service["metadata"]["name"] for service in services)
    raise CommandError("the control plane has ended")


def _at(api_service: Tree, url: str) -> bool:
    return bool((api_service["metadata"].get("annotations") or {}).get(URL) == url)


def _is_available(api_service: Tree) -> bool:
    conditions = api_service.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Available" and condition["status"] == "True" for condition in conditions)
