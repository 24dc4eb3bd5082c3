"""`WebhookCalls`: sends reviews to the webhooks that objects of the API name, over connections that are kept.

Each call has a deadline, its answer a bound in bytes, and the calls of one webhook that are under way are bounded, so
one that hangs leaves the server to others. The texts of failures are client-go's, which people search for.

`KubeconfigCredentials`: who this server is to webhooks, by a kubeconfig. A user is called ``host:port``, ``host`` for
port 443, ``*.suffix`` with or without the port, or ``*`` for all others. A webhook behind a Service is
``name.namespace.svc``. Clusters in the file don't count.

Must not know: what is in reviews. See also: ``net.pool``, the connections.
Source: the ``clientConfig`` of webhooks in apiextensions.k8s.io/v1 and admissionregistration.k8s.io/v1; client-go
``rest/request.go``; k8s.io/apiserver ``util/webhook``; Kubernetes' documentation of "Authenticate API servers".
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from oarlock.client.login.credentials import Credential, CredentialTls
from oarlock.client.login.kubeconfig import (
    ClientConfig,
    ClientConfigError,
    KubeconfigUsers,
    in_cluster_config,
    load_users,
)
from oarlock.client.requests import identity_lines
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote as go_quoted
from oarlock.net.connecting import Address
from oarlock.net.files import file_signature
from oarlock.net.messages import Header, HttpError, HttpRequest, HttpResponse
from oarlock.net.pool import HttpPool, PoolLimits
from oarlock.net.url import Url, UrlError, clean_path, parse_url

_BY_CODE = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_MOST_SHOWN = 1024


def answer_text(status: int, content_type: str, body: bytes) -> str:
    """What an answer that isn't a success says: the message of its Status, or what stands for its code."""
    message = _message_of(body)
    if message:
        return message
    if status in _BY_CODE:
        return _BY_CODE[status]
    text = body[:_MOST_SHOWN].decode(errors="replace").strip() if content_type.startswith("text/") else "unknown"
    if status in (403, 406, 415):
        return text or "unknown"
    if status >= 500:
        return f"an error on the server ({go_quoted(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


def _message_of(body: bytes) -> str:
    try:
        tree = json.decode(body)
    except DecodeError:
        return ""
    if not isinstance(tree, dict) or tree.get("kind") != "Status" or tree.get("status") == "Success":
        return ""
    message = tree.get("message")
    return message[:_MOST_SHOWN] if isinstance(message, str) else ""


log = logging.getLogger("oarlock.admission")
OWN_SERVICE = "kubernetes.default.svc:443"
HTTPS = ":443"
NOBODY = ClientConfig("")


class KubeconfigCredentials:
    """A ``WebhookCredentials``. Making one raises ClientConfigError for a file that can't be used; one that is replaced
    by such a file later is logged, and the previous content stays in force."""

    def __init__(self, file: Path, in_cluster: Callable[[], ClientConfig] = in_cluster_config) -> None:
        self._file = file
        self._in_cluster = in_cluster
        self._signature = file_signature(file)
        self._users = load_users(file)

    def __call__(self, host: str) -> ClientConfig:
        """The credentials for ``host:port``."""
        signature = file_signature(self._file)
        if signature != self._signature:
            self._signature = signature
            try:
                self._users = load_users(self._file)
            except ClientConfigError as error:
                log.error("%s: the previous content stays in force", error)
        return self._credentials(self._users, host)

    def _credentials(self, known: KubeconfigUsers, host: str) -> ClientConfig:
        for name in _names(host):
            if name in known.users:
                return known.users[name]
        if host == OWN_SERVICE:
            try:
                return self._in_cluster()
            except ClientConfigError:
                pass  # it runs in no cluster
        return known.users.get("*") or known.users.get(known.current) or NOBODY


def _names(host: str) -> Iterator[str]:
    """The names that a user for `host` may have, the most exact first."""
    hosts = [host, host.removesuffix(HTTPS)] if host.endswith(HTTPS) else [host]
    for name in hosts:
        yield name
        labels = name.split(".")
        for at in range(1, len(labels)):
            yield ".".join(["*", *labels[at:]])


MOST_CALLS = 100
"""How many calls of one webhook are under way at a time; the next is refused at once."""

MOST_SERVERS = 128
"""To how many servers connections are kept; those of the one that was called least recently are closed first."""

MOST_IDLE = 16
MOST_ERROR_BYTES = 64 * 1024
"""So much is read of an answer that isn't a success."""

_HEADERS = (
    ("accept", "application/json, */*"),
    ("content-type", "application/json"),
    ("user-agent", "oarlock-admission"),
)


class WebhookError(Exception):
    """A call without a usable answer. The text is the message for the client.

    `busy`: the webhook wasn't called, because too many other calls wait for it. `code` is the status of the answer, 0
    without an answer.
    """

    def __init__(self, why: str, *, busy: bool = False, code: int = 0) -> None:
        super().__init__(why)
        self.busy = busy
        self.code = code


@dataclass(frozen=True, slots=True)
class WebhookService:
    """The Service of a webhook, and the path of the webhook there."""

    namespace: str
    name: str
    port: int = 443
    path: str = ""

    @property
    def host(self) -> str:
        return f"{self.name}.{self.namespace}.svc"


FindService = Callable[[WebhookService], Awaitable[str]]
"""Finds where a Service is: ``host:port``. Raises `WebhookError`."""


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """The address of a webhook: a URL, or a Service. With `ca_data` (PEM) only these CAs are trusted."""

    url: str
    service: WebhookService | None = None
    ca_data: bytes = field(default=b"", repr=False)
    _called: Url | None = field(default=None, init=False, compare=False, repr=False)

    def called(self) -> Url:
        """What is called: the URL, parsed once, with its path cleaned. Raises `UrlError`."""
        if self._called is None:
            url = parse_url(self.url)
            object.__setattr__(self, "_called", replace(url, host=url.sent_host, path=clean_path(url.path)))
        assert self._called is not None
        return self._called

    @staticmethod
    def of(url: str, service: WebhookService | None, ca_data: bytes) -> WebhookTarget:
        """The target that a ``clientConfig`` names, by a URL or by a Service. `ca_data` is its CA bundle, decoded."""
        if service is not None:
            slash = "/" if service.path and not service.path.startswith("/") else ""
            url = f"https://{service.host}:{service.port}{slash}{quote(service.path)}"
        return WebhookTarget(url, service, ca_data)


_ServerKey = tuple[str, bytes, str]


class WebhookCredentials(Protocol):
    """Who this server is to webhooks."""

    def __call__(self, host: str) -> ClientConfig:
        """The credentials for ``host:port``; the rest of the configuration is ignored.

        Raises ClientConfigError.
        """
        ...


class _Server:
    """The connections to one server, and the credentials for it. `calls` is the number under way."""

    def __init__(self, address: Address, user: ClientConfig, config: ClientConfig) -> None:
        self.user = user
        self.calls = 0
        self._address = address
        self._impersonated = () if user.user is None else identity_lines(user.user)
        self._credential = Credential(config)
        self.connections = HttpPool(CredentialTls(self._credential), PoolLimits(calls=MOST_CALLS, idle=MOST_IDLE))

    async def post(self, request: HttpRequest) -> HttpResponse:
        """The answer, after a 401 that to other credentials. Raises HttpError, ClientConfigError."""

        async def send(credentials: Sequence[Header]) -> HttpResponse:
            headers = (*request.headers, *credentials, *self._impersonated)
            return await self.connections.ask(self._address, replace(request, headers=headers))

        return await self._credential.ask(send)


class WebhookCalls:
    """Calls webhooks from one event loop.

    `find_service` resolves Services. `credentials` authenticate the server to webhooks; by default there are none.
    """

    def __init__(self, find_service: FindService, credentials: WebhookCredentials | None = None) -> None:
        self._find_service = find_service
        self._credentials = credentials
        self._servers: OrderedDict[_ServerKey, _Server] = OrderedDict()

    async def post(self, target: WebhookTarget, body: bytes, *, timeout_s: float, most_bytes: int) -> bytes:
        """The body of a successful answer of at most `most_bytes`. Raises WebhookError."""
        seconds = f"{math.ceil(timeout_s)}s"  # client-go rounds up what a request has left, too
        try:
            url = target.called()
        except UrlError as error:
            raise WebhookError(f"Unparsable URL: {error}") from None
        request = HttpRequest("POST", url.host, f"{url.path}?timeout={seconds}", _HEADERS, body)
        try:
            async with asyncio.timeout(timeout_s):
                answer, text = await self._posted(target, url, request, most_bytes)
        except TimeoutError:
            raise _of_post(url, request, "context deadline exceeded") from None
        except (HttpError, ClientConfigError, _NotFound) as error:
            raise _of_post(url, request, str(error)) from None
        if not 200 <= answer.status <= 206:
            raise WebhookError(answer_text(answer.status, answer.header("content-type"), text), code=answer.status)
        if len(text) > most_bytes:
            raise WebhookError(f"the answer has more than {most_bytes} bytes")
        return text

    async def close(self) -> None:
        """Close all connections."""
        servers, self._servers = self._servers, OrderedDict()
        for server in servers.values():
            server.connections.close()

    async def _posted(
        self, target: WebhookTarget, url: Url, request: HttpRequest, most_bytes: int
    ) -> tuple[HttpResponse, bytes]:
        address = url.host_and_port
        if target.service is not None:
            try:
                address = await self._find_service(target.service)
            except WebhookError as error:
                raise _NotFound(str(error)) from None
        server = self._server(target, url, replace(url, host=address))
        if server.calls >= MOST_CALLS:
            raise WebhookError(f"{MOST_CALLS} calls of it wait for an answer already", busy=True)
        server.calls += 1
        try:
            answer = await server.post(request)
            return answer, await answer.read(most_bytes if 200 <= answer.status <= 206 else MOST_ERROR_BYTES)
        finally:
            server.calls -= 1

    def _server(self, target: WebhookTarget, url: Url, at: Url) -> _Server:
        """The server of `url`, which is `at` an address. It is made again when the credentials for it changed.

        Raises ClientConfigError.
        """
        name = url.hostname
        user = _NOBODY if self._credentials is None else self._credentials(url.host_and_port)
        key = (at.origin, target.ca_data, name)
        server = self._servers.get(key)
        if server is not None and server.user is not user and server.user != user:
            server.connections.close()
            server = None
        if server is None:
            if not at.callable:
                raise ClientConfigError(f"dial tcp: address {at.host}: invalid port")
            address = Address(at.hostname, at.port, name)
            trusted = b"\n".join(filter(None, (user.ca_data, target.ca_data)))
            config = replace(user, server=at.origin, ca_data=trusted)
            server = self._servers[key] = _Server(address, user, config)
        self._servers.move_to_end(key)
        if len(self._servers) > MOST_SERVERS:
            self._close_one()
        return server

    def _close_one(self) -> None:
        """Close the connections of the server that was called least recently, of those that aren't being called."""
        oldest = next((key for key, server in self._servers.items() if not server.calls), None)
        if oldest is not None:
            self._servers.pop(oldest).connections.close()


_NOBODY = ClientConfig("")


class _NotFound(Exception):
    """A Service isn't there."""


def _of_post(url: Url, request: HttpRequest, why: str) -> WebhookError:
    return WebhookError(f'Post "{url.origin}{request.target}": {why}')
