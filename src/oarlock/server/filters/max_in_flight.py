"""Limits the number of concurrent requests: 429 with Retry-After.

Also 429 while the budget of unsent bytes is exhausted (``endpoints.unsent``), which alone bounds what is kept for
clients that don't read. A request counts until its answer is there, a watch until it has started; other requests that
go on for long, such as ``exec``, don't, whatever their method. An answer that is made while it is sent counts until it
has been sent; if its client takes it slowly, until somebody else needs its place.
Source: k8s.io/apiserver ``server/filters/maxinflight``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.server.filters.plain import plain
from oarlock.server.filters.shutdown import ALWAYS_ANSWERED

__all__ = ["SLOW_S", "MaxInFlight", "too_many_requests"]

TEXT = "Too many requests, please try again later.\n"
MASTERS = "system:masters"
ReleaseSlot = Callable[[bool], None]
READING = frozenset({"get", "list", "watch", "head", "options"})


SLOW_S = 0.05
"""An answer that takes longer to send is taken slowly, in seconds."""


class MaxInFlight:
    """A filter with two counters. 0 means no limit; members of ``system:masters`` are never refused."""

    __slots__ = ("_reads", "_sending", "_writes", "mutating", "mutating_limit", "read_only", "read_only_limit")

    def __init__(self, read_only_limit: int = 400, mutating_limit: int = 200) -> None:
        self.read_only_limit = read_only_limit
        self.mutating_limit = mutating_limit
        self.read_only = 0
        self.mutating = 0
        self._reads, self._writes = self._read, self._mutated  # bound once, not with each request
        self._sending: dict[ReleaseSlot, dict[RequestState, float]] = {self._reads: {}, self._writes: {}}

    def begin(self, state: RequestState) -> Response | None:
        """Count a request, or refuse it."""
        unsent = state.unsent
        if unsent.size >= unsent.limit and not state.request.path.startswith(ALWAYS_ANSWERED):
            return too_many_requests()
        verb = state.target.verb
        if verb != "watch" and state.is_long_running:
            return None
        if verb in READING:
            if self.read_only >= self.read_only_limit > 0 and not self._may_yet(state, self._reads):
                return too_many_requests()
            self.read_only += 1
            state.release_slot = self._reads
        else:
            if self.mutating >= self.mutating_limit > 0 and not self._may_yet(state, self._writes):
                return too_many_requests()
            self.mutating += 1
            state.release_slot = self._writes
        return None

    def answered(self, state: RequestState, response: Response) -> None:
        """The answer to a request that was counted begins."""
        release_slot = state.release_slot
        assert release_slot is not None
        if type(response.body) is bytes or response.stream is not None:
            state.release_slot = None
            release_slot(True)
        else:
            self._sending[release_slot][state] = state.clock.monotonic()
            state.release_slot = partial(self._sent, release_slot, state)

    def _may_yet(self, state: RequestState, release_slot: ReleaseSlot) -> bool:
        """Whether a request may begin although all places are taken: it may take that of a slow client's answer."""
        if MASTERS in state.user.groups:
            return True
        sending = self._sending[release_slot]
        oldest = next(iter(sending), None)
        if oldest is None or state.clock.monotonic() - sending[oldest] < SLOW_S:
            return False
        oldest.release_slot = None
        self._sent(release_slot, oldest, False)
        return True

    def _sent(self, release_slot: ReleaseSlot, state: RequestState, whole: bool) -> None:
        del self._sending[release_slot][state]
        state.release_slot = None  # it holds the request, which holds it
        release_slot(whole)

    def _read(self, whole: bool) -> None:
        self.read_only -= 1

    def _mutated(self, whole: bool) -> None:
        self.mutating -= 1


def too_many_requests(retry_after_s: int = 1) -> Response:
    response = plain(429, TEXT)
    response.headers.append(("retry-after", str(retry_after_s)))
    return response
