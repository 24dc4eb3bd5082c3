"""`Requests`: sends what a `Client` asks, with its settings, and turns answers into trees or errors.

Must not know: kinds, objects. See also: `retries`, `error_statuses`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from oarlock.client.error_statuses import error_of
from oarlock.client.keywords import ClientSettings
from oarlock.client.objects import encoded
from oarlock.client.retries import send
from oarlock.client.server_warnings import warnings_of
from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, Transport, TransportError
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.context import User
from oarlock.meta.errors import StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.options_parse import QueryPairs

__all__ = ["Requests", "identity_lines"]


class Requests:
    """Requests over `transport`. `on_refusal` is called with each error that is answered."""

    def __init__(
        self, transport: Transport, settings: ClientSettings, on_refusal: Callable[[StatusError], object]
    ) -> None:
        self.transport = transport
        self._on_refusal = on_refusal
        self.settings = settings
        agent = settings.user_agent or f"oarlock ({settings.field_manager})"
        impersonation = () if settings.user is None else identity_lines(settings.user)
        self._lines = (("user-agent", agent), *impersonation)

    async def ask(
        self, method: str, path: str, query: QueryPairs = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """The JSON of an answer, None for an empty one. Raises StatusError, TransportError."""
        data = b"" if body is None else encoded(body)
        answer = await self._answer(self._request(method, path, query, data, headers))
        text = await answer.read()
        try:
            return json.decode(text) if text else None
        except DecodeError as error:
            raise TransportError(f"the answer to {method} {path} is no JSON: {error}", sent=True) from None

    async def tree(
        self, method: str, path: str, query: QueryPairs = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Tree:
        """The object that is answered. Raises TransportError for anything else, too."""
        answer = await self.ask(method, path, query, body, headers)
        if not isinstance(answer, dict):
            raise TransportError(f"the answer to {method} {path} is no object", sent=True)
        return answer

    async def open(
        self,
        path: str,
        query: QueryPairs = (),
        *,
        streams: bool = False,
        silence_s: float | None = None,
        accept: str = "",
    ) -> ClientResponse:
        """A GET whose body the caller reads. Raises StatusError, TransportError."""
        request = self._request("GET", path, query, headers={"accept": accept} if accept else None)
        if streams:
            timeout_s = self.settings.timeout_s
            request = ClientRequest("GET", path, query, request.headers, b"", timeout_s, True, silence_s)
        return await self._answer(request)

    async def connect(self, path: str, query: QueryPairs, protocols: Sequence[str]) -> ClientConnection:
        """A WebSocket with one of `protocols`. Raises StatusError, TransportError."""
        connection = await self.transport.connect(self._request("GET", path, query), protocols)
        if isinstance(connection, ClientResponse):
            raise error_of(connection.status, connection.headers, await connection.read())
        return connection

    async def pause(self, failures: int) -> None:
        """Wait before a watch is opened again: longer with each failure in a row, and not all clients together."""
        if failures:
            policy = self.settings.retries
            await policy.sleep(policy.backoff.wait_s(failures + 1) * random.uniform(0.5, 1.0))

    async def _answer(self, request: ClientRequest) -> ClientResponse:
        answer = await send(self.transport, request, self.settings.retries)
        for text in warnings_of(answer.headers.get("warning", "")):
            self.settings.on_warning(text)
        if answer.status >= 300:  # redirects aren't followed: they would take the credentials elsewhere
            error = error_of(answer.status, answer.headers, await answer.read())
            self._on_refusal(error)
            raise error
        return answer

    def _request(
        self,
        method: str,
        path: str,
        query: QueryPairs = (),
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> ClientRequest:
        own = {"accept": "application/json"}
        if body:
            own["content-type"] = "application/json"
        lines = (*{**own, **(headers or {})}.items(), *self._lines)
        return ClientRequest(method, path, query, lines, body, self.settings.timeout_s)


def identity_lines(user: User) -> QueryPairs:
    """The headers that act as `user`. Source: the API server's documentation of user impersonation."""
    lines = [("impersonate-user", user.name), *(("impersonate-group", group) for group in user.groups)]
    if user.uid:
        lines.append(("impersonate-uid", user.uid))
    for key, values in user.extra.items():
        lines += [(f"impersonate-extra-{quote(key.lower(), safe='')}", value) for value in values]
    return lines
