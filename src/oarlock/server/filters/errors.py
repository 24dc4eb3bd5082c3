"""Turns errors from further in into answers."""

from __future__ import annotations

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.server.filters.filter import Next

__all__ = ["answer_errors"]


async def answer_errors(state: RequestState, next: Next) -> Response:
    """Answer known errors with a Status. Any other is a bug, and raised again."""
    try:
        return await next(state)
    except Exception as error:
        response = error_response(error, state)
        error.__traceback__ = None  # an error that a cached route raises again would keep the request's frames
        return response
