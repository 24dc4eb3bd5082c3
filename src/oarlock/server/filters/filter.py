"""The kinds of filters, plain-text answers, and `Shutdown`, the filter of a server that is shutting down.

Source: k8s.io/apiserver ``server/filters`` with_retry_after and waitgroup. See also: ``server.chain``, their order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from typing import Any

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.errors import ServiceUnavailable

Next = Callable[[RequestState], Coroutine[Any, Any, Response]]
"""The rest of the chain."""

FilterStep = Callable[[RequestState], Response | Awaitable[Response | None] | None]
"""A filter before a request is carried out: None if it goes on, or the answer. Raises errors that become answers.

One that has to wait returns a coroutine, of either. Runs without a current task until the request first waits (see
``serving.eager``).
"""

Finish = Callable[[RequestState, Response], None]
"""A filter that looks at the answer, before it is sent, and may add headers."""


def unchanged(rest: Next) -> Next:
    """Nothing around the rest of the chain."""
    return rest


def plain(status: int, text: str) -> Response:
    """An answer with `text`, with the two headers of Go's ``http.Error``."""
    headers = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
    return Response(status, headers, text.encode())


TEXT = "The apiserver is shutting down, please try again later."
ALWAYS_ANSWERED = ("/readyz", "/livez", "/healthz", "/metrics")


class Leaving(Enum):
    """`NO`: serve everything. `SOON`: answer new requests with 429. `NOW`: refuse them with 503."""

    NO = 0
    SOON = 1
    NOW = 2


class Shutdown:
    """A filter that refuses new requests during shutdown. Requests in progress go on."""

    __slots__ = ("leaving",)

    def __init__(self) -> None:
        self.leaving = Leaving.NO

    def __call__(self, state: RequestState) -> Response | None:
        if self.leaving is not Leaving.NO and not state.request.path.startswith(ALWAYS_ANSWERED):
            return self._refuse(state)
        return None

    def _refuse(self, state: RequestState) -> Response:
        if self.leaving is Leaving.SOON:
            response = plain(429, TEXT)
            response.headers.append(("retry-after", "5"))
        else:
            response = error_response(ServiceUnavailable("apiserver is shutting down", retry_after_s=1), state)
            response.headers.append(("x-content-type-options", "nosniff"))
        if not state.request.http2:
            response.headers.append(("connection", "close"))
        return response
