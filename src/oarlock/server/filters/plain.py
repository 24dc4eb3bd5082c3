"""Answers in plain text: what filters that run before anything is negotiated say."""

from __future__ import annotations

from oarlock.endpoints.http import Response

__all__ = ["plain"]


def plain(status: int, text: str) -> Response:
    """`text` as it is, with the two headers of Go's ``http.Error``."""
    headers = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
    return Response(status, headers, text.encode())
