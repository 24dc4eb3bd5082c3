"""`Requests` sends what a `Client` asks, with its settings, and turns answers into trees or errors.

A ``Status`` that a server sends becomes the class of `oarlock.errors` that it stands for.
Must not know: kinds. See also: `keywords`.
Source: the API conventions' Status section; client-go ``rest/request.go`` for what isn't a Status.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from oarlock.client.keywords import ClientSettings, send, warnings_of
from oarlock.client.objects import encoded
from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, Transport, TransportError
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta import errors
from oarlock.meta.context import User
from oarlock.meta.errors import StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.options_parse import QueryPairs

_CLASSES: Mapping[tuple[int, str], type[StatusError]] = {
    (cls.code, cls.reason): cls
    for cls in (
        errors.BadRequest,
        errors.Unauthorized,
        errors.Forbidden,
        errors.NotFound,
        errors.MethodNotAllowed,
        errors.NotAcceptable,
        errors.Conflict,
        errors.AlreadyExists,
        errors.Expired,
        errors.RequestEntityTooLarge,
        errors.UnsupportedMediaType,
        errors.InvalidObject,
        errors.TooManyRequests,
        errors.InternalError,
        errors.ServerTimeout,
        errors.StorageReadError,
        errors.ServiceUnavailable,
        errors.Timeout,
    )
}
_BY_CODE = {cls.code: cls for cls in reversed([*_CLASSES.values()])}
"""For answers without a Status: of each code the first class above."""

_SHOWN_BYTES = 2_048


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> StatusError:
    """The error that an answer stands for. What isn't a Status, such as a proxy's page, is quoted."""
    try:
        tree = json.decode(body)
    except DecodeError:
        tree = None
    if not isinstance(tree, dict) or tree.get("kind") != "Status":
        text = body[:_SHOWN_BYTES].decode(errors="replace").strip()
        tree = {"code": status, "message": text or f"the server answered {status} without a message"}
    error = error_of_tree({"code": status, **tree})
    retry_after = headers.get("retry-after", "")
    if not error.retry_after_s and retry_after.isascii() and retry_after.isdigit():
        error.retry_after_s = int(retry_after[:9])
    return error


def error_of_tree(tree: Mapping[str, Any]) -> StatusError:
    """The error of a ``Status`` object, as an ERROR event of a watch carries it."""
    code = tree.get("code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else 500
    reason = tree.get("reason")
    reason = reason if isinstance(reason, str) else ""
    cls = _CLASSES.get((code, reason)) or _BY_CODE.get(code, StatusError)
    if cls is errors.Conflict and _names_fields(tree):
        cls = errors.FieldConflict
    error: StatusError = cls.__new__(cls)
    vars(error)["_open"] = None  # its object is named already
    if isinstance(error, errors.InvalidObject):
        error.errors = []  # `details` has the causes
    message = tree.get("message")
    StatusError.__init__(error, message if isinstance(message, str) else "")
    error.code = code
    error.reason = reason or cls.reason
    details = tree.get("details")
    error.details = details if isinstance(details, dict) else None
    seconds = (error.details or {}).get("retryAfterSeconds")
    error.retry_after_s = seconds if isinstance(seconds, int) and seconds > 0 else 0
    metadata = tree.get("metadata")
    token = metadata.get("continue") if isinstance(metadata, dict) else ""
    error.continue_token = token if isinstance(token, str) else ""
    return error


def _names_fields(tree: Mapping[str, Any]) -> bool:
    """Whether a Conflict is one of server-side apply: its causes are fields that others own."""
    details = tree.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    first = causes[0] if isinstance(causes, list) and causes else None
    return isinstance(first, dict) and first.get("reason") == "FieldManagerConflict"


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
            raise TransportError(f"the answer to {method} {path} isn't JSON: {error}", sent=True) from None

    async def tree(
        self, method: str, path: str, query: QueryPairs = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Tree:
        """The object that is answered. Raises TransportError for anything else, too."""
        answer = await self.ask(method, path, query, body, headers)
        if not isinstance(answer, dict):
            raise TransportError(f"the answer to {method} {path} isn't an object", sent=True)
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
