"""Limits the number of concurrent requests: 429 with Retry-After.

Also 429 while the budget of unsent bytes is exhausted (``endpoints.unsent``). A request counts until its answer has
been sent, a watch until it has started; other requests that go on for long, such as ``exec``, don't, whatever their
method. Source: k8s.io/apiserver ``server/filters/maxinflight``.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.server.filters.plain import plain
from oarlock.server.filters.shutdown import ALWAYS_ANSWERED

__all__ = ["MaxInFlight", "turned_away"]

TEXT = "Too many requests, please try again later.\n"
MASTERS = "system:masters"
READING = frozenset({"get", "list", "watch", "head", "options"})


class MaxInFlight:
    """A filter with two counters. 0 means no limit; members of ``system:masters`` are never refused.

    `on_full` is called for every request that is refused because too many are in progress.
    """

    __slots__ = ("_reads", "_writes", "mutating", "mutating_limit", "on_full", "read_only", "read_only_limit")

    def __init__(self, read_only_limit: int = 400, mutating_limit: int = 200) -> None:
        self.read_only_limit = read_only_limit
        self.mutating_limit = mutating_limit
        self.on_full: Callable[[], None] = _nobody
        self.read_only = 0
        self.mutating = 0
        self._reads, self._writes = self._read, self._mutated  # bound once, not with each request

    def begin(self, state: RequestState) -> Response | None:
        """Count a request, or refuse it."""
        unsent = state.unsent
        if unsent.size >= unsent.limit and not state.request.path.startswith(ALWAYS_ANSWERED):
            return turned_away()
        verb = state.target.verb
        if verb != "watch" and state.is_long_running:
            return None
        if verb in READING:
            if self.read_only >= self.read_only_limit > 0 and MASTERS not in state.user.groups:
                self.on_full()
                return turned_away()
            self.read_only += 1
            state.seat = self._reads
        else:
            if self.mutating >= self.mutating_limit > 0 and MASTERS not in state.user.groups:
                self.on_full()
                return turned_away()
            self.mutating += 1
            state.seat = self._writes
        return None

    def answered(self, state: RequestState, response: Response) -> None:
        """The answer to a request that was counted begins."""
        if response.stream is not None and state.seat is self._reads:
            state.seat = None
            self.read_only -= 1

    def _read(self, whole: bool) -> None:
        self.read_only -= 1

    def _mutated(self, whole: bool) -> None:
        self.mutating -= 1


def _nobody() -> None:
    """The default `on_full`."""


def turned_away(retry_after_s: int = 1) -> Response:
    response = plain(429, TEXT)
    response.headers.append(("retry-after", str(retry_after_s)))
    return response
