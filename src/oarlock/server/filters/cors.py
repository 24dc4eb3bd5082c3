"""Lets pages of named origins read answers in a browser (CORS), and answers the browser's questions before that.

Source: k8s.io/apiserver ``server/filters/cors``; the Fetch standard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState

__all__ = ["Cors"]

_HEADERS = (
    ("access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
    (
        "access-control-allow-headers",
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, "
        "If-Modified-Since",
    ),
    ("access-control-expose-headers", "Date"),
    ("access-control-allow-credentials", "true"),
)


class Cors:
    """`origins` are compiled patterns; one that is found in ``Origin`` allows it."""

    def __init__(self, origins: Sequence[Any]) -> None:
        self._origins = tuple(origins)

    def preflight(self, state: RequestState) -> Response | None:
        """The answer to what a browser asks before a request of a page; None for any other request."""
        if state.request.method == "OPTIONS" and self._origin(state) is not None:
            return Response(204, [])
        return None

    def allow(self, state: RequestState, response: Response) -> None:
        """Tell the browser which page may read the answer."""
        origin = self._origin(state)
        if origin is not None:
            response.headers.append(("access-control-allow-origin", origin))
            response.headers.extend(_HEADERS)

    def _origin(self, state: RequestState) -> str | None:
        origin = state.request.headers.get("origin")
        return origin if origin and any(pattern.search(origin) for pattern in self._origins) else None
