"""Answers unexpected exceptions with 500, so that a bug never ends the process or the connection.

Source: k8s.io/apiserver ``server/filters/wrap``, whose answer is the text alone; a Status is what clients read.
"""

from __future__ import annotations

import logging
from types import TracebackType

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.errors import InternalError

__all__ = ["panic_answer"]

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
