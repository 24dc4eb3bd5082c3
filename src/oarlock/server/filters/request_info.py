"""What the request is about, found once for authorization, metrics and the verb alike; metrics are taken here.

Source: k8s.io/apiserver ``endpoints/filters/requestinfo``.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.endpoints.exchange import Exchange
from oarlock.endpoints.http import Response
from oarlock.endpoints.respond import error_response
from oarlock.meta.errors import StatusError
from oarlock.server.filters.filter import Filter, Next

__all__ = ["request_info"]


def request_info(resolve: Callable[[Exchange], None], observe: Callable[[Exchange, Response], None]) -> Filter:
    """`resolve` sets ``x.target`` and ``x.route`` or raises `StatusError`.

    `observe` is told of every answer before it is sent.
    """

    async def find_out(x: Exchange, next: Next) -> Response:
        try:
            resolve(x)
        except StatusError as error:
            response = error_response(error, x)
        else:
            response = await next(x)
        observe(x, response)
        return response

    return find_out
