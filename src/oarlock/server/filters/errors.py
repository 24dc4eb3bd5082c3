"""Turns errors from further in into answers."""

from __future__ import annotations

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import ANONYMOUS, RequestState
from oarlock.server.filters.filter import Next

__all__ = ["LAST_ANSWER", "answer_errors"]

LAST_ANSWER = ("connection", "close")
"""Ends a connection of HTTP/2 after this answer: an expensive protocol isn't for those whom nobody knows."""


async def answer_errors(state: RequestState, next: Next) -> Response:
    """Answer known errors with a Status. Any other is a bug, and raised again.

    Who isn't known gets one answer on a connection of HTTP/2: `LAST_ANSWER`.
    """
    try:
        return await next(state)
    except Exception as error:
        response = error_response(error, state)
        if state.request.http2 and state.user is ANONYMOUS:
            response.headers.append(LAST_ANSWER)
        error.__traceback__ = None  # an error that a cached route raises again would keep the request's frames
        return response
