"""A bug costs one request its answer, never the process or the connection; it is counted like any other answer.

Source: k8s.io/apiserver ``server/filters/wrap``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from oarlock.endpoints.exchange import Exchange
from oarlock.endpoints.http import Response
from oarlock.server.filters.filter import Filter, Next
from oarlock.server.filters.plain import plain

__all__ = ["panic_recovery"]

log = logging.getLogger("oarlock.server")

TEXT = "This request caused apiserver to panic. Look in the logs for details.\n"


def panic_recovery(observe: Callable[[Exchange, Response], None]) -> Filter:
    """What nobody knew how to answer is logged with its traceback and answered with 500, of which `observe` is told."""

    async def recover(x: Exchange, next: Next) -> Response:
        try:
            return await next(x)
        except Exception:
            log.exception("%s %s failed, audit id %s", x.request.method, x.request.path, x.audit_id)
        response = plain(500, TEXT)
        observe(x, response)
        return response

    return recover
