"""The kinds of filters, and the plain-text answers of those that run before content negotiation.

See also: ``server.chain``, which puts them in order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState

Next = Callable[[RequestState], Coroutine[Any, Any, Response]]
"""The rest of the chain."""

FilterStep = Callable[[RequestState], Response | Awaitable[Response | None] | None]
"""A filter before a request is carried out: None if it goes on, or the answer. Raises errors that become answers.

One that has to wait returns a coroutine, of either. Runs without a current task until the request first waits (see
``serving.eager``).
"""

Finish = Callable[[RequestState, Response], None]
"""A filter that looks at the answer, before it is sent, and may add headers."""


def unchanged(rest: Next) -> Next:
    """Nothing around the rest of the chain."""
    return rest


def plain(status: int, text: str) -> Response:
    """An answer with `text`, with the two headers of Go's ``http.Error``."""
    headers = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
    return Response(status, headers, text.encode())
