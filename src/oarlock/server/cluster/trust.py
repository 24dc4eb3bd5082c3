"""`ClusterTrust`: whom a cluster says its extension servers may believe, followed while the server runs.

It is in the ConfigMap ``extension-apiserver-authentication`` of ``kube-system``: the authorities of clients, and of the
front proxy with the names of its headers. Flags come before it. See also: `identities`, which puts it to use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from oarlock.client.client import Client
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.keywords import RetryPolicy
from oarlock.client.login.kubeconfig import ClientConfigError, in_cluster_config, load_kubeconfig
from oarlock.client.transport import TransportError
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import StatusError
from oarlock.policy.authn.front_proxy_headers import FrontProxyNames
from oarlock.server.cluster.review_caller import IN_CLUSTER
from oarlock.server.files.credentials import BadFile

log = logging.getLogger("oarlock.authn")
NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
FIRST_LOOK_S = 10.0
PAUSE_S = 10.0
ATTEMPTS = 5
"""Their pauses double from 0.1 s: together they are shorter than `FIRST_LOOK_S`, so that the cause is reported."""


@dataclass(frozen=True, slots=True)
class TrustedAuthorities:
    """What the ConfigMap says. The authorities are PEM, empty for none."""

    clients: bytes = b""
    front_proxies: bytes = b""
    names: FrontProxyNames | None = None


class ClusterTrust:
    """Reads the ConfigMap of the cluster in `file`, and tells `changed` what is in it.

    `changed` raises ValueError if that can't be used; the previous content then stays in force. With `tolerate` a
    server starts without the ConfigMap, and lets nobody in by it until it can be read.
    """

    def __init__(self, file: Path, changed: Callable[[TrustedAuthorities], None], *, tolerate: bool) -> None:
        self._file = file
        self._changed = changed
        self._tolerate = tolerate
        self._seen: TrustedAuthorities | None = None

    async def start(self) -> None:
        """Read it for the first time. Raises `BadFile`."""
        try:
            async with asyncio.timeout(FIRST_LOOK_S), cluster_client(self._file) as client:
                tree = await client.get("v1/ConfigMap", NAME, namespace=NAMESPACE)
            self._read(tree)
        except (ClientConfigError, TransportError, StatusError, TimeoutError, ValueError) as error:
            why = f"{self._file}: reading the ConfigMap {NAMESPACE}/{NAME} failed: {str(error) or 'no answer'}"
            if not self._tolerate:
                advice = "bind the role extension-apiserver-authentication-reader to the server, or set"
                raise BadFile(f"{why}; {advice} --authentication-tolerate-lookup-failure") from None
            log.error("%s: users of this cluster can't authenticate", why)

    async def follow(self) -> None:
        """Tell each change, until cancelled."""
        while True:
            try:
                async with cluster_client(self._file) as client:
                    selector = f"metadata.name={NAME}"
                    watch = client.watch("v1/ConfigMap", namespace=NAMESPACE, field_selector=selector)
                    async with aclosing(watch) as events:
                        async for event in events:
                            if event.type != "DELETED":  # as Kubernetes: what was said stays in force
                                self._read(event.object)
            except (ClientConfigError, TransportError, StatusError, ValueError) as error:
                log.error("%s: watching the ConfigMap %s/%s failed: %s", self._file, NAMESPACE, NAME, error)
            await asyncio.sleep(PAUSE_S)

    def _read(self, tree: Mapping[str, Any]) -> None:
        said = _read(tree.get("data") or {})
        if said != self._seen:
            self._changed(said)
            self._seen = said


def cluster_client(file: Path, connections: int = 2, retries: int = ATTEMPTS) -> Client:
    """A client of the cluster in `file`, a kubeconfig or `IN_CLUSTER`. Raises `ClientConfigError`.

    It tries again for some seconds, and then tells why it can't.
    """
    config = in_cluster_config() if file == IN_CLUSTER else load_kubeconfig(file)
    return Client(HTTPTransport(config, connections=connections), retries=RetryPolicy(retries=retries))


def _read(data: Mapping[str, Any]) -> TrustedAuthorities:
    """Raises ValueError."""
    proxies = str(data.get("requestheader-client-ca-file", "")).encode()
    if not proxies:
        return TrustedAuthorities(str(data.get("client-ca-file", "")).encode())
    names = FrontProxyNames(
        _texts(data, "requestheader-allowed-names", lower=False),
        _texts(data, "requestheader-username-headers"),
        _texts(data, "requestheader-uid-headers"),
        _texts(data, "requestheader-group-headers"),
        _texts(data, "requestheader-extra-headers-prefix"),
    )
    return TrustedAuthorities(str(data.get("client-ca-file", "")).encode(), proxies, names)


def _texts(data: Mapping[str, Any], key: str, *, lower: bool = True) -> tuple[str, ...]:
    """A list of texts, which is JSON in a value of the ConfigMap. Raises ValueError."""
    try:
        values = json.decode(str(data.get(key) or "[]").encode())
    except DecodeError as error:
        raise ValueError(f"{key} isn't a JSON list: {error}") from None
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise ValueError(f"{key} isn't a list of strings")
    return tuple(value.lower() if lower else value for value in values)
