"""Plain-text answers, for filters that run before content negotiation."""

from __future__ import annotations

from oarlock.endpoints.http import Response

__all__ = ["plain"]


def plain(status: int, text: str) -> Response:
    """`text`, with the two headers of Go's ``http.Error``."""
    headers = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
    return Response(status, headers, text.encode())
