"""Lets pages of named origins read answers in a browser (CORS), and answers the browser's questions before that.

Source: k8s.io/apiserver ``server/filters/cors``; the Fetch standard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.server.filters.filter import Filter, Next

__all__ = ["cors"]

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


def cors(origins: Sequence[Any]) -> Filter:
    """The filter. `origins` are compiled patterns; one that is found in ``Origin`` allows it."""

    async def allow_origins(state: RequestState, next: Next) -> Response:
        origin = state.request.headers.get("origin")
        if not origin or not any(pattern.search(origin) for pattern in origins):
            return await next(state)
        if state.request.method == "OPTIONS":
            response = Response(204, [])
        else:
            response = await next(state)
        response.headers.append(("access-control-allow-origin", origin))
        response.headers.extend(_HEADERS)
        return response

    return allow_origins
