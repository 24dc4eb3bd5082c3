"""Not more requests at a time than the process can finish in time: 429, and a hint when to come back.

A watch counts until it has started. Source: k8s.io/apiserver ``server/filters/maxinflight``.
"""

from __future__ import annotations

from oarlock.endpoints.exchange import Exchange
from oarlock.endpoints.http import Response
from oarlock.server.filters.filter import Next
from oarlock.server.filters.plain import plain

__all__ = ["MaxInFlight", "turned_away"]

TEXT = "Too many requests, please try again later.\n"
MASTERS = "system:masters"
READING = frozenset({"get", "list", "watch", "head", "options"})


class MaxInFlight:
    """A filter with two counters. 0 means no limit; members of ``system:masters`` are never turned away."""

    __slots__ = ("mutating", "mutating_limit", "read_only", "read_only_limit")

    def __init__(self, read_only_limit: int = 400, mutating_limit: int = 200) -> None:
        self.read_only_limit = read_only_limit
        self.mutating_limit = mutating_limit
        self.read_only = 0
        self.mutating = 0

    async def __call__(self, x: Exchange, next: Next) -> Response:
        if x.target.verb in READING:
            if self.read_only >= self.read_only_limit > 0 and MASTERS not in x.user.groups:
                return turned_away()
            self.read_only += 1
            try:
                return await next(x)
            finally:
                self.read_only -= 1
        if self.mutating >= self.mutating_limit > 0 and MASTERS not in x.user.groups:
            return turned_away()
        self.mutating += 1
        try:
            return await next(x)
        finally:
            self.mutating -= 1


def turned_away() -> Response:
    response = plain(429, TEXT)
    response.headers.append(("retry-after", "1"))
    return response
