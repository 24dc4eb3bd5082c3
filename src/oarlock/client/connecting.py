"""`connect`: a client for whoever a kubeconfig, or the pod's service account, says one is.

See also: `kubeconfig`, `http_transport`.
"""

from __future__ import annotations

from pathlib import Path

from oarlock.client.client import Client
from oarlock.client.config import ClientConfig
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.kubeconfig import load_config

__all__ = ["connect"]


def connect(
    config: ClientConfig | str | Path | None = None, *, context: str = "", field_manager: str = "oarlock"
) -> Client:
    """A client of the server that `config` names: a kubeconfig's path, or a `ClientConfig`.

    Without one, what kubectl would take: ``KUBECONFIG``, a pod's service account, ``~/.kube/config``. Nothing is sent
    before the first request. Raises ClientConfigError; TransportError when ``oarlock[client]`` isn't installed.
    """
    if not isinstance(config, ClientConfig):
        config = load_config(config, context=context)
    return Client(HTTPTransport(config), field_manager=field_manager, user=config.user)
