"""Answers for a server that is shutting down.

Source: k8s.io/apiserver ``server/filters`` with_retry_after and waitgroup. See also: ``server.lifecycle``.
"""

from __future__ import annotations

from enum import Enum

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.errors import ServiceUnavailable
from oarlock.server.filters.filter import plain

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
