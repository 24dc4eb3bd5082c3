"""`ServerPages`: the paths that a server answers beside its API: health, metrics, debugging, its token issuer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import parse_accept
from oarlock.meta.errors import MethodNotAllowed, NotAcceptable
from oarlock.meta.metrics import Collector, MetricFamily
from oarlock.server.assembly.filters import ServerFairness
from oarlock.server.assembly.resources import ServedResources
from oarlock.server.assembly.storage import ServerStorage
from oarlock.server.config import ServerConfig
from oarlock.server.description import ClusterRules, ServerDescription
from oarlock.server.metrics.counts import RequestMetrics
from oarlock.server.metrics.page import MetricsPage, WorkersMetrics
from oarlock.server.pages.health import Health, HealthConditions, HealthTest, checks_of, in_time

if TYPE_CHECKING:
    from oarlock.client.clock import TimerClock
    from oarlock.policy.authn.tokens.token_issuer import TokenIssuer
    from oarlock.server.pages.debug import DebugPages

DISCOVERY = "/.well-known/openid-configuration"
KEYS = "/openid/v1/jwks"
KEY_SET = "application/jwk-set+json"
_CACHE = ("cache-control", "public, max-age=3600")


class IssuerPages:
    """Answers `paths`. `keys_url` says where the keys are; at the host that a request names unless given."""

    paths = (DISCOVERY, KEYS)

    def __init__(self, issuer: TokenIssuer, keys_url: str) -> None:
        self._issuer = issuer
        self._keys_url = keys_url

    def respond(self, state: RequestState) -> Response | None:
        """The answer, or None for a path that isn't in `paths`. Raises NotAcceptable, MethodNotAllowed."""
        request = state.request
        if request.path not in self.paths:
            return None
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed()
        if request.path == KEYS:
            clauses = parse_accept(request.headers.get("accept", "") or "*/*")
            if not any(clause.matches(KEY_SET) for clause in clauses):
                raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {KEY_SET}", details={})
            return Response(200, [("content-type", KEY_SET), _CACHE], self._issuer.published_keys())
        url = self._keys_url or f"https://{request.headers.get('host', 'localhost')}{KEYS}"
        return Response(200, [("content-type", "application/json"), _CACHE], self._issuer.discovery(url))


STORE_CHECK_S = 2.0


class ServerPages:
    """`started` (``on_start`` has ended) and `shutting_down` are what probes report of the server.

    `requests` counts the requests of all paths. There is no metrics page before `measure`.
    """

    def __init__(
        self,
        server: ServerDescription,
        config: ServerConfig,
        clock: TimerClock,
        storage: ServerStorage,
        resources: ServedResources,
        fairness: ServerFairness,
    ) -> None:
        self.started = False
        self.shutting_down = False
        self._config = config
        self._fairness = fairness.pages
        self._issuer: IssuerPages | None = None
        self._metrics: MetricsPage | None = None
        checks = checks_of(self._conditions(server, storage, resources))
        self._health = Health(checks if storage.encryption is None else [*checks, *storage.encryption.checks()])
        debug_paths = () if self._fairness is None else self._fairness.paths
        self.paths: tuple[str, ...] = (*self._health.paths, *MetricsPage.paths, *debug_paths)
        """Every path that is answered, for the index."""
        self.debug = self._debug_pages(server.name, clock)
        if self.debug is not None:
            self.paths = (*self.paths, *self.debug.paths)
        self._others = server.pages
        for pages in self._others:
            self.paths = (*self.paths, *pages.paths)
        self.requests = RequestMetrics(frozenset((*self.paths, "/version")))

    def measure(self, collectors: Sequence[Collector], workers: WorkersMetrics | None) -> None:
        """Print what `collectors` tell, with those of `workers` if the server has several processes."""
        self._metrics = MetricsPage(collectors, self._health, workers)

    def families(self) -> tuple[MetricFamily, ...]:
        """What is on the page of metrics of this process; nothing before `measure`."""
        return () if self._metrics is None else self._metrics.families()

    def publish_keys(self, issuer: TokenIssuer) -> None:
        """Answer for the keys of the server's own tokens too."""
        self._issuer = IssuerPages(issuer, self._config.service_account_jwks_uri)
        self.paths = (*self.paths, *self._issuer.paths)

    async def respond(self, state: RequestState) -> Response | None:
        """The answer, None for a path that isn't in `paths`."""
        path = state.request.path
        own = None if self._fairness is None else self._fairness.respond(path, state.request.query)
        own = own or await self._health.respond(state)
        if own is None and self._metrics is not None:
            own = await self._metrics.respond(path)
        if own is None and self.debug is not None:
            own = await self.debug.respond(state)
        if own is None and self._issuer is not None:
            own = self._issuer.respond(state)
        for pages in self._others if own is None else ():
            own = own or await pages.respond(state)
        return own

    def _conditions(
        self, server: ServerDescription, storage: ServerStorage, resources: ServedResources
    ) -> HealthConditions:
        store, cache = in_time(storage.backend.current_rev, STORE_CHECK_S), in_time(storage.fresh, STORE_CHECK_S)

        async def store_answers() -> str:
            return await store() if storage.opened else "the store is being opened"

        async def cache_is_current() -> str:
            return await cache() if resources.served else "resources are being loaded"

        informers, name = server.informers, server.name
        started: dict[str, Callable[[], bool]] = {}
        if informers:
            started[f"start-{name}-informers"] = lambda: all(informer.attached for informer in informers)
        if server.on_start is not None:
            started[f"start-{name}-on-start"] = lambda: self.started
        started |= {f"start-{name}-{what}": done for what, done in server.start_conditions.items()}
        return HealthConditions(
            store=store_answers,
            cache=cache_is_current,
            integrity=storage.integrity.test,
            served=lambda: resources.served,
            shutting_down=lambda: self.shutting_down,
            started=started,
            cluster_rules=None if server.cluster_rules is None else _cluster_rules(server.cluster_rules),
        )

    def _debug_pages(self, name: str, clock: TimerClock) -> DebugPages | None:
        config = self._config
        if not config.debug_pages and not config.profiling:
            return None
        from oarlock.server.pages.debug import DebugPages  # noqa: PLC0415 (few servers need the profiler)

        began = clock.monotonic()
        return DebugPages(name, config, clock, lambda: clock.monotonic() - began, self.paths)


def _cluster_rules(rules: ClusterRules) -> HealthTest:
    """Whether the rules of the cluster are known well enough to write by."""

    async def known() -> str:
        return rules.unknown()

    return known
