"""A client of Kubernetes APIs: of oarlock servers and of any cluster.

    async with connect() as client:
        database = await client.get(Database, "orders", namespace="shop")

Importing it loads no server. A name is loaded when it is first used, so a server loads clocks and informers only.
Must not know: how a server works. Next: `client`, `informers`, `transport`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oarlock.meta.lazy_names import lazy_names

if TYPE_CHECKING:
    from oarlock.client.client import Client
    from oarlock.client.http_transport import HTTPTransport, connect
    from oarlock.client.informers.informer import Informer
    from oarlock.client.informers.watching import WatchEvent
    from oarlock.client.keywords import ClientSettings, RetryPolicy
    from oarlock.client.login.kubeconfig import ClientConfig, ClientConfigError, in_cluster_config, load_config
    from oarlock.client.objects import ObjectPage
    from oarlock.client.remote_command import CommandOutput, CommandResult, RemoteCommand
    from oarlock.client.transport import TransportError

__all__ = [
    "Client",
    "ClientConfig",
    "ClientConfigError",
    "ClientSettings",
    "CommandOutput",
    "CommandResult",
    "HTTPTransport",
    "Informer",
    "ObjectPage",
    "RemoteCommand",
    "RetryPolicy",
    "TransportError",
    "WatchEvent",
    "connect",
    "in_cluster_config",
    "load_config",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "client": "Client",
            "http_transport": "HTTPTransport connect",
            "informers.informer": "Informer",
            "keywords": "ClientSettings RetryPolicy",
            "login.kubeconfig": "ClientConfig ClientConfigError in_cluster_config load_config",
            "objects": "ObjectPage",
            "remote_command": "CommandOutput CommandResult RemoteCommand",
            "transport": "TransportError",
            "informers.watching": "WatchEvent",
        },
    )
