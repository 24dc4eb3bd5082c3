"""`ServerFilters`: what the filters of a server have from its options, and share among all of its handlers.

See also: ``server.chain``, the order of filters.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import re2

from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.http import Handler, Response, Unsent
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.go.gotext import quote
from oarlock.policy.fairness.engine import Fairness
from oarlock.server import chain
from oarlock.server.audit.sink import ServerAudit
from oarlock.server.chain import ChainConfig
from oarlock.server.config import ExtensionConfig, ServerConfig
from oarlock.server.fairness.feed import GROUP, KINDS, FairnessFeed, FairnessPages
from oarlock.server.filters.answer_headers import Cors, go_away, strict_transport_security
from oarlock.server.filters.audit import Audit
from oarlock.server.filters.fairness import FairnessFilter, MaxInFlight
from oarlock.server.filters.filter import Finish, Next, Shutdown
from oarlock.server.filters.memory import MemoryReserve, is_limited

if TYPE_CHECKING:
    from oarlock.client.clock import TimerClock
    from oarlock.server.fairness.cluster import ClusterFlowControl


class ServerFairness:
    """`in_flight` is the filter. With priority and fairness there are `pages` about it.

    `count` says how many objects of a group and resource are stored. What divides requests is in the objects that the
    server itself serves; if it serves none, in those of the cluster whose rules it applies.
    """

    def __init__(
        self, catalog: Catalog, config: ServerConfig, clock: TimerClock, count: Callable[[str, str], int | None]
    ) -> None:
        self.in_flight: MaxInFlight | FairnessFilter
        self.pages: FairnessPages | None = None
        self._clock = clock
        self._feed: FairnessFeed | None = None
        self._cluster: ClusterFlowControl | None = None
        wanted, serves = config.enable_priority_and_fairness, _serves_flow_schemas(catalog)
        file = config.cluster_kubeconfig if isinstance(config, ExtensionConfig) else None
        if not (wanted or (wanted is None and (serves or file is not None))):
            self.in_flight = MaxInFlight(config.max_read_only_in_flight, config.max_mutating_in_flight)
            return
        seats = config.max_read_only_in_flight + config.max_mutating_in_flight
        fairness = Fairness(seats, clock.monotonic)
        self.in_flight = FairnessFilter(fairness, clock, count, config.request_timeout_s)
        self.pages = FairnessPages(fairness, clock)
        if file is None or serves:
            self._feed = FairnessFeed(fairness)
            return
        # Imported here, because few servers stand behind a cluster.
        from oarlock.server.fairness.cluster import ClusterFlowControl  # noqa: PLC0415 (see above)

        self._cluster = ClusterFlowControl(fairness, file)

    def attach(self, resources: Mapping[tuple[str, str], Any]) -> None:
        """Be configured by what is in these resources from now on."""
        if self._feed is not None:
            self._feed.attach(resources)

    def upkeep(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What is to run in the background while the server runs."""
        if isinstance(self.in_flight, FairnessFilter):
            yield self.in_flight.run() if self._feed is None else self.in_flight.run(self._feed.renew)
        if self._cluster is not None:
            yield self._cluster.run(self._clock)


def _serves_flow_schemas(catalog: Catalog) -> bool:
    """Whether priority and fairness can be configured by objects."""
    group = catalog.groups.get(GROUP)
    return group is not None and all(plural in group.resources for plural in KINDS)


access_log = logging.getLogger("oarlock.access")

LOGGED = 2048  # characters of each thing that a client spells


class ServerFilters:
    """`shutdown` refuses requests when the server leaves, `unsent` limits the bytes that wait for slow readers."""

    def __init__(self, config: ServerConfig, clock: TimerClock) -> None:
        self.shutdown = Shutdown()
        self.unsent = Unsent(config.max_unsent_bytes)
        self.audit = _audit(config, clock)
        self._config = config
        self._clock = clock

    def handler(self, given: ChainConfig, dispatch: Next) -> Handler:
        """The chain around `dispatch`: `given`, and what is the same for every handler of the server."""
        config = self._config
        logs = config.verbosity >= 3
        whole = replace(
            given,
            observe=partial(_observe_and_log, given.observe) if logs else given.observe,
            shutdown=self.shutdown,
            memory=MemoryReserve() if is_limited() else None,
            audit=None if self.audit is None else Audit(self.audit),
            cors=_cors(config),
            connection_headers=_connection_headers(config),
            request_timeout_s=config.request_timeout_s,
        )
        return chain.build(whole, dispatch, self._clock, self.unsent)


def _cors(config: ServerConfig) -> Cors | None:
    patterns = [re2.compile(text) for text in config.cors_allowed_origins]
    return Cors(patterns) if patterns else None


def _connection_headers(config: ServerConfig) -> list[Finish]:
    filters: list[Finish] = []
    if config.strict_transport_security_directives:
        filters.append(strict_transport_security(config.strict_transport_security_directives))
    if config.goaway_chance:
        filters.append(go_away(config.goaway_chance, random.random))
    return filters


def _audit(config: ServerConfig, clock: TimerClock) -> ServerAudit | None:
    if config.audit_policy_file is None:
        return None
    from oarlock.server.audit.build import audit_of  # noqa: PLC0415 (few servers need the sinks)

    return audit_of(config, clock)


def _observe_and_log(
    observe: Callable[[RequestState, Response], None], state: RequestState, response: Response
) -> None:
    observe(state, response)
    response.on_sent(partial(_log, state, response.status))


def _log(state: RequestState, status: int, whole: bool) -> None:
    """Log a request whose answer has been sent, or was cut."""
    request = state.request
    uri = f"{request.path}?{request.query}" if request.query else request.path
    access_log.info(
        'verb="%s" URI=%s latency="%.1fms" userAgent=%s audit-ID=%s srcIP="%s:%d" user=%s resp=%d%s',
        *(state.target.verb, quote(uri[:LOGGED]), (state.clock.monotonic() - request.received) * 1000),
        *(quote(request.headers.get("user-agent", "")[:LOGGED]), quote(state.audit_id)),
        *(request.peer.address, request.peer.port, quote(state.user.name), status),
        "" if whole else " cut",
    )
