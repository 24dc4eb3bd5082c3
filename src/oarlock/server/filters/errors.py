"""Turns errors from further in into answers."""

from __future__ import annotations

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import ANONYMOUS, RequestState

__all__ = ["LAST_ANSWER", "error_answer"]

LAST_ANSWER = ("connection", "close")
"""Ends a connection of HTTP/2 after this answer: an expensive protocol isn't for those whom nobody knows."""


def error_answer(error: Exception, state: RequestState) -> Response:
    """The Status of a known error. Any other is a bug, and raised again.

    Who isn't known gets one answer on a connection of HTTP/2: `LAST_ANSWER`.
    """
    response = error_response(error, state)
    if state.request.http2 and state.user is ANONYMOUS:
        response.headers.append(LAST_ANSWER)
    error.__traceback__ = None  # an error that a cached route raises again would keep the request's frames
    return response
