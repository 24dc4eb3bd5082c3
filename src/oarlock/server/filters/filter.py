"""What a filter is. Next: ``server.chain``, where they are put in order."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState

__all__ = ["Filter", "Next"]

Next = Callable[[RequestState], Coroutine[Any, Any, Response]]
"""The rest of the chain."""

Filter = Callable[[RequestState, Next], Coroutine[Any, Any, Response]]
"""One step: looks at the request, calls the rest or answers itself, looks at the answer.

Runs for every request, without a current task until the request first waits (see ``serving.eager``).
"""
