"""`ReviewCaller`: sends SubjectAccessReviews over HTTP, to a webhook or to a cluster, as a kubeconfig says.

See also: ``policy.authz.webhook``, which calls it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from oarlock.client.config import ClientConfig, ClientConfigError
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.kubeconfig import in_cluster_config, load_kubeconfig
from oarlock.client.transport import ClientRequest, TransportError
from oarlock.server.options.option import ConfigError

__all__ = ["ReviewCaller", "cluster_caller", "webhook_caller"]

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
MOST_BYTES = 256 * 1024
"""The longest answer that is read."""
CONNECTIONS = 32
_HEADERS = (("content-type", "application/json"), ("accept", "application/json"), ("user-agent", "oarlock-authz"))


class ReviewCaller:
    """Posts a tree to `path` of a server, and returns the tree of the answer. `timeout_s` is for each call."""

    def __init__(self, config: ClientConfig, path: str, timeout_s: float) -> None:
        self._transport = HTTPTransport(config, connections=CONNECTIONS, max_answer_bytes=MOST_BYTES)
        self._path = path
        self._timeout_s = timeout_s

    async def __call__(self, tree: dict[str, Any]) -> Any:
        """Raises TransportError, ValueError."""
        request = ClientRequest(
            "POST", self._path, headers=_HEADERS, body=json.dumps(tree).encode(), timeout_s=self._timeout_s
        )
        answer = await self._transport.send(request)
        body = await answer.read()
        if answer.status not in (200, 201):
            raise ValueError(f"it answered {answer.status}: {body[:200].decode(errors='replace')}")
        return json.loads(body)

    async def close(self) -> None:
        """Close its connections."""
        await self._transport.close()


def webhook_caller(option: str, file: Path, timeout_s: float) -> ReviewCaller:
    """A caller of the service that a kubeconfig names; its URL is where reviews go. Raises `ConfigError`."""
    try:
        config = load_kubeconfig(file)
        path = "" if urlsplit(config.server).path.strip("/") else "/"
        return ReviewCaller(config, path, timeout_s)
    except (ClientConfigError, TransportError) as error:
        raise ConfigError([f"{option}: {error}"]) from None


def cluster_caller(option: str, file: Path | None, timeout_s: float) -> ReviewCaller:
    """A caller of the cluster that a kubeconfig names; without one, of that around this pod. Raises `ConfigError`."""
    try:
        config = in_cluster_config() if file is None else load_kubeconfig(file)
        return ReviewCaller(config, REVIEWS, timeout_s)
    except (ClientConfigError, TransportError) as error:
        raise ConfigError([f"{option}: {error}"]) from None
