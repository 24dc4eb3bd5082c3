"""The other side of the wire: a client of Kubernetes APIs, ours or any cluster's.

    async with connect() as client:
        database = await client.get(Database, "orders", namespace="shop")

Importing it loads no server. Must not know: how a server works. Next: `client`, `informer`, `transport`.
"""

from __future__ import annotations

from oarlock.client.client import Client
from oarlock.client.config import ClientConfig, ClientConfigError
from oarlock.client.connecting import connect
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.informer import Informer
from oarlock.client.keywords import ClientSettings
from oarlock.client.kubeconfig import in_cluster_config, load_config
from oarlock.client.objects import ObjectPage
from oarlock.client.remote_command import CommandOutput, CommandResult, RemoteCommand
from oarlock.client.retries import RetryPolicy
from oarlock.client.transport import TransportError
from oarlock.client.watching import WatchEvent

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
