"""`connect`: a client for whoever a kubeconfig, or the pod's service account, says one is.

See also: `login.kubeconfig`, `http_transport`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from oarlock.client.client import Client
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.keywords import ClientKeywords
from oarlock.client.login.config import ClientConfig
from oarlock.client.login.kubeconfig import load_config


def connect(
    config: ClientConfig | str | Path | None = None, *, context: str = "", **settings: Unpack[ClientKeywords]
) -> Client:
    """A client of the server that `config` names: the path of a kubeconfig, or a `ClientConfig`.

    Without `config` it looks where kubectl looks: ``KUBECONFIG``, a pod's service account, ``~/.kube/config``. The
    keywords are those of `Client`. The impersonated `user` is by default that of the kubeconfig. Opens no connection
    before the first request. Raises ClientConfigError.
    """
    if not isinstance(config, ClientConfig):
        config = load_config(config, context=context)
    return Client(HTTPTransport(config), **settings)
