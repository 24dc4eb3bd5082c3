"""A bug costs one request its answer, never the process or the connection.

Source: k8s.io/apiserver ``server/filters/wrap``.
"""

from __future__ import annotations

import logging

from oarlock.endpoints.exchange import Exchange
from oarlock.endpoints.http import Response
from oarlock.server.filters.filter import Next
from oarlock.server.filters.plain import plain

__all__ = ["panic_recovery"]

log = logging.getLogger("oarlock.server")

TEXT = "This request caused apiserver to panic. Look in the logs for details.\n"


async def panic_recovery(x: Exchange, next: Next) -> Response:
    """Whatever nobody knew how to answer is logged with its traceback and answered with 500."""
    try:
        return await next(x)
    except Exception:
        log.exception("%s %s failed, audit id %s", x.request.method, x.request.path, x.audit_id)
        return plain(500, TEXT)
