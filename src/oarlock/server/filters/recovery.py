"""Turns errors from further in into answers; an unexpected exception into 500, so that no bug ends the connection.

Source: k8s.io/apiserver ``server/filters/wrap``, whose answer is the text alone; a Status is what clients read.
"""

from __future__ import annotations

import logging
from types import TracebackType

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import ANONYMOUS, RequestState
from oarlock.meta.errors import InternalError

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


log = logging.getLogger("oarlock.server")

LOGGED = 500
"""So many characters of a path are logged."""

TEXT = "This request caused apiserver to panic. Look in the logs for details."


def panic_answer(error: Exception, state: RequestState) -> Response:
    """Logs an exception with its traceback; the answer is 500."""
    text = "%s %s failed, audit id %s"
    info = (type(error), error, _below_the_chain(error))
    log.error(text, state.request.method, state.request.path[:LOGGED], state.audit_id, exc_info=info)
    return error_response(InternalError(TEXT), state)


def _below_the_chain(error: Exception) -> TracebackType | None:
    """The traceback without the filters, which are the same for every request."""
    step = start = error.__traceback__
    while step is not None and step.tb_next is not None:
        if step.tb_frame.f_globals.get("__name__", "").startswith("oarlock.server."):
            start = step.tb_next
        step = step.tb_next
    return start
