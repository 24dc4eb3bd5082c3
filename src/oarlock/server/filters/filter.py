"""The kinds of filters. See also: ``server.chain``, which puts them in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState

__all__ = ["FilterStep", "Finish", "Next", "unchanged"]

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
