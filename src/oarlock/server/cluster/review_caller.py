"""`ReviewCaller`: sends TokenReviews and SubjectAccessReviews to the server that a kubeconfig names.

See also: ``policy.authn.remote_tokens`` and ``policy.authz.webhook``, which call it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oarlock.client.http_transport import HTTPTransport
from oarlock.client.login.kubeconfig import ClientConfigError, in_cluster_config, load_kubeconfig
from oarlock.client.transport import ClientRequest, TransportError
from oarlock.codec import json
from oarlock.net.backoff import Backoff
from oarlock.server.options.option import ConfigError

IN_CLUSTER = Path("in-cluster")
"""Stands for the files of the pod that the server runs in, in the place of a kubeconfig."""

CONNECTIONS = 32
MOST_BYTES = 256 * 1024
MOST_SHOWN = 200
ATTEMPTS = 5
AGAIN = Backoff(0.5, 10.0, factor=1.5, jitter=0.2)
_HEADERS = (("content-type", "application/json"), ("accept", "application/json"))

Reviewed = Callable[[str, float], None]
"""Called after each review: the code of the answer, or ``<error>``, and the seconds it took."""


class ReviewCaller:
    """Sends reviews to `path` of the server in `file`; without a path, to the URL as it stands.

    What may be over soon (no connection, 429, 5xx) is tried again while the one who asks waits. Making one raises
    `ClientConfigError`.
    """

    def __init__(self, file: Path, path: str, timeout_s: float, reviewed: Reviewed | None = None) -> None:
        try:
            config = in_cluster_config() if file == IN_CLUSTER else load_kubeconfig(file)
            self._transport = HTTPTransport(config, connections=CONNECTIONS, max_answer_bytes=MOST_BYTES)
        except TransportError as error:
            raise ClientConfigError(str(error)) from None
        self._file = file
        self._path = path or ("" if config.url.path.strip("/") else "/")
        self._timeout_s = timeout_s
        self._reviewed = reviewed

    async def __call__(self, tree: dict[str, Any]) -> Any:
        """The answer. Raises TransportError, ConnectionError, DecodeError."""
        pauses = AGAIN.pauses()
        for left in range(ATTEMPTS - 1, -1, -1):
            try:
                status, body = await self._attempt(tree)
            except TransportError:
                if not left:
                    raise
            else:
                if status in (200, 201):
                    return json.decode(body)
                if not left or (status != 429 and status < 500):
                    text = body[:MOST_SHOWN].decode(errors="replace")
                    raise ConnectionError(f"{self._file}: a review was answered with {status}: {text}")
            await asyncio.sleep(pauses.take())
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, tree: dict[str, Any]) -> tuple[int, bytes]:
        body, wait_s = json.encode(tree), self._timeout_s
        began, code = time.monotonic(), "<error>"
        try:
            answer = await self._transport.send(ClientRequest("POST", self._path, (), _HEADERS, body, wait_s))
            code = str(answer.status)
            return answer.status, await answer.read()
        finally:
            if self._reviewed is not None:
                self._reviewed(code, time.monotonic() - began)

    async def close(self) -> None:
        """Close its connections."""
        await self._transport.close()


REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def review_caller(option: str, kubeconfig: Path | None, timeout_s: float, *, is_cluster: bool) -> ReviewCaller:
    """A caller of the service that a kubeconfig names, whose URL is where reviews go, or of a cluster.

    Without a kubeconfig that is the cluster around this pod. Raises `ConfigError`.
    """
    try:
        return ReviewCaller(kubeconfig or IN_CLUSTER, REVIEWS if is_cluster else "", timeout_s)
    except ClientConfigError as error:
        raise ConfigError([f"{option}: {error}"]) from None
