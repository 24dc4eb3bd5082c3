"""Finds target and route of a request, for authorization, metrics and the verb; records metrics.

Source: k8s.io/apiserver ``endpoints/filters/requestinfo``.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.errors import StatusError
from oarlock.server.filters.filter import Filter, Next

__all__ = ["request_info"]


def request_info(resolve: Callable[[RequestState], None], observe: Callable[[RequestState, Response], None]) -> Filter:
    """The filter. `resolve` sets ``state.target`` and ``state.route`` or raises `StatusError`.

    `observe` is called with every answer before it is sent.
    """

    async def find_out(state: RequestState, next: Next) -> Response:
        try:
            resolve(state)
        except StatusError as error:
            response = error_response(error, state)
        else:
            response = await next(state)
        observe(state, response)
        return response

    return find_out
