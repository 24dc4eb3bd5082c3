"""The order of filters that every request passes, outermost first.

The order is part of the API: every answer has an audit id; 401 comes before 429, which comes before 403; a server that
is shutting down says so before it checks credentials. See also: ``filters``, one file per filter; ``endpoints.router``,
at the end of the chain.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import field
from typing import Any

from oarlock.endpoints.http import Handler, Request, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.unsent import UNLIMITED, Unsent
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.policy.authn.anonymous import NOBODY, Anonymous
from oarlock.policy.authn.authenticator import Authenticator
from oarlock.policy.authn.front_proxy import FrontProxyHeaders
from oarlock.policy.authz.authorizer import AlwaysAllow, Authorizer
from oarlock.policy.authz.counts import AccessCounts
from oarlock.server.filters.audit import Audit
from oarlock.server.filters.audit_id import audit_id
from oarlock.server.filters.authentication import Attempted, authentication, uncounted
from oarlock.server.filters.authorization import authorization
from oarlock.server.filters.deadline import deadline
from oarlock.server.filters.errors import answer_errors
from oarlock.server.filters.fairness import FairnessFilter
from oarlock.server.filters.filter import Filter, Next
from oarlock.server.filters.identity_headers import identity_headers
from oarlock.server.filters.max_in_flight import MaxInFlight
from oarlock.server.filters.memory import MemoryReserve
from oarlock.server.filters.recovery import panic_recovery
from oarlock.server.filters.request_info import request_info
from oarlock.server.filters.shutdown import Shutdown
from oarlock.server.filters.warnings import recorded_warnings

__all__ = ["ChainConfig", "build", "filters"]


def _unobserved(state: RequestState, response: Response) -> None:
    """Records no metrics."""


@dataclass(frozen=True, slots=True)
class ChainConfig:
    """The parameters of the filters of one server."""

    resolve: Callable[[RequestState], None]
    authenticator: Authenticator
    authorizer: Authorizer = field(default_factory=AlwaysAllow)
    access: AccessCounts = field(default_factory=AccessCounts)
    observe: Callable[[RequestState, Response], None] = _unobserved
    shutdown: Shutdown = field(default_factory=Shutdown)
    max_in_flight: MaxInFlight | FairnessFilter | None = field(default_factory=MaxInFlight)
    memory: MemoryReserve | None = None
    anonymous: Anonymous = NOBODY
    front_proxy: FrontProxyHeaders = field(default_factory=FrontProxyHeaders)
    audit: Audit | None = None
    cors: Filter | None = None
    connection_headers: Sequence[Filter] = ()
    audiences: frozenset[str] = frozenset()
    attempted: Attempted = uncounted
    request_timeout_s: float = 60.0
    random: Callable[[int], bytes] = os.urandom


def filters(config: ChainConfig) -> list[Filter]:
    """The filters in order; the last one calls the router."""
    audit = config.audit
    return [
        audit_id(config.random),
        *config.connection_headers,
        panic_recovery(config.observe),
        request_info(config.resolve, config.observe),
        config.shutdown,
        deadline(config.request_timeout_s),
        recorded_warnings,
        *([] if config.cors is None else [config.cors]),
        answer_errors,
        *([] if audit is None else [audit.unauthenticated]),
        authentication(config.authenticator, config.anonymous, config.audiences, config.attempted),
        *([] if audit is None else [audit.record]),
        identity_headers(config.front_proxy, config.authorizer),
        *([] if config.max_in_flight is None else [config.max_in_flight]),
        authorization(config.authorizer, config.access),
        *([] if config.memory is None else [config.memory]),
    ]


def build(filters: Sequence[Filter], dispatch: Next, clock: Clock, unsent: Unsent = UNLIMITED) -> Handler:
    """Wrap `filters` around `dispatch`, once; the result is called for every request."""
    chain = dispatch
    for step in reversed(filters):
        chain = _around(step, chain)

    def handle(request: Request) -> Coroutine[Any, Any, Response]:
        return chain(RequestState(request, clock, unsent))

    return handle


def _around(step: Filter, rest: Next) -> Next:
    def run(state: RequestState) -> Coroutine[Any, Any, Response]:
        return step(state, rest)

    return run
