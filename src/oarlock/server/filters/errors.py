"""Where an error that was raised anywhere further in becomes the answer it stands for."""

from __future__ import annotations

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import error_response
from oarlock.server.filters.filter import Next

__all__ = ["answer_errors"]


async def answer_errors(state: RequestState, next: Next) -> Response:
    """Errors of the known families become a Status; any other goes on outwards and is a bug."""
    try:
        return await next(state)
    except Exception as error:
        return error_response(error, state)
