"""The type of a filter. See also: ``server.chain``, which puts them in order."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState

__all__ = ["Filter", "Next"]

Next = Callable[[RequestState], Coroutine[Any, Any, Response]]
"""The rest of the chain."""

Filter = Callable[[RequestState, Next], Coroutine[Any, Any, Response]]
"""A filter: looks at the request, calls the rest of the chain or answers itself, looks at the answer.

Runs without a current task until the request first waits (see ``serving.eager``).
"""
