"""`ServerParts`: the concerns of one server, each assembled by a module beside, and how they are joined.

backend → cache → resources → router → filters → handler. See also: `run`, which starts and stops them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from oarlock.endpoints.http import Handler
from oarlock.meta.metrics import Collector, MetricFamily
from oarlock.policy.authn.authenticator import Authenticator
from oarlock.policy.authn.front_proxy_headers import FrontProxyHeaders
from oarlock.policy.fairness.metrics import fairness_families
from oarlock.server.assembly.filters import ServerFairness, ServerFilters
from oarlock.server.assembly.identities import Identities, anonymous_of
from oarlock.server.assembly.own_work import check_leases, families_of
from oarlock.server.assembly.pages import ServerPages
from oarlock.server.assembly.resources import ServedResources, Surroundings, admission_of
from oarlock.server.assembly.storage import ServerStorage
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.authorization.assembly import ServerAuthorization
from oarlock.server.chain import ChainConfig
from oarlock.server.config import ServerConfig
from oarlock.server.description import ServerDescription
from oarlock.server.filters.access import uncounted
from oarlock.server.filters.fairness import FairnessFilter
from oarlock.server.metrics.page import (
    WorkersMetrics,
    in_flight_families,
    object_families,
    unsent_families,
    watch_event_families,
)
from oarlock.storage.backend import Backend

if TYPE_CHECKING:
    from oarlock.client.clock import TimerClock
    from oarlock.server.encryption import ServerEncryption
    from oarlock.server.pages.static_files import StaticFiles


class ServerAuthentication:
    """Only anonymous users are known until `let_in`."""

    def __init__(self, config: ServerConfig) -> None:
        self.anonymous = anonymous_of(config)
        self.front_proxy = FrontProxyHeaders()
        self.audiences: frozenset[str] = frozenset()
        self.counts = AuthenticationCounts()
        self._remembered: Callable[[], dict[str, int]] | None = None

    def let_in(self, identities: Identities) -> None:
        """Authenticate with `identities`. Call it before handlers are made."""
        self.front_proxy, self.audiences = identities.front_proxy, frozenset(identities.audiences)
        self.anonymous, self.counts = identities.anonymous, identities.counts
        self._remembered = identities.remembered

    def families(self) -> Iterator[MetricFamily]:
        """What has been counted, as metrics."""
        if self._remembered is not None:
            self.counts.remembered = self._remembered()
        return self.counts.families()


class ServerParts:
    """What requests to a server and its lifecycle use. Making it opens nothing. Raises `ConfigError`."""

    def __init__(
        self,
        server: ServerDescription,
        config: ServerConfig,
        backend: Backend,
        clock: TimerClock,
        workers_metrics: WorkersMetrics | None = None,
        encryption: ServerEncryption | None = None,
    ) -> None:
        check_leases(server.controllers, server.catalog, server.cluster_rules is not None)
        self.server = server
        self.config = config
        self.clock = clock
        self.storage = ServerStorage(config, backend, clock, encryption)
        self.filters = ServerFilters(config, clock)
        self.authorization = ServerAuthorization(server.authorizer, config, clock, server.default_authorization)
        self.authorization.check(server.catalog)
        server.access.begin(self.authorization.authorizer, self.authorization.policy)
        self.authentication = ServerAuthentication(config)
        self.admission = admission_of(server, self.authorization.authorizer)
        self.fairness = ServerFairness(server.catalog, config, clock, lambda *names: self.resources.count(*names))
        around = Surroundings(
            self.admission,
            own_response=lambda state: self.pages.respond(state),
            own_paths=lambda: self.pages.paths,
            followers=(self.authorization.attach, self.fairness.attach),
        )
        self.resources = ServedResources(server, config, self.storage, around)
        self.pages = ServerPages(server, config, clock, self.storage, self.resources, self.fairness)
        self.pages.measure(tuple(self._collectors()), workers_metrics)
        self._files = [*_files(server.name, config)]

    def handler(self, authenticator: Authenticator, *, in_process: bool = False) -> Handler:
        """The filter chain as a handler for the serving layer, or for code in this process.

        Requests of the latter aren't counted among those in flight, and never refused because there are too many: each
        is waited for by code of the server itself, and its answer is in memory anyway.
        """
        known = self.authentication
        given = ChainConfig(
            resolve=self.resources.router.resolve,
            authenticator=authenticator,
            authorizer=self.authorization.authorizer,
            access=self.authorization.counts,
            observe=self.pages.requests.observe,
            max_in_flight=None if in_process else self.fairness.in_flight,
            anonymous=known.anonymous,
            front_proxy=known.front_proxy,
            files=self._files,
            audiences=known.audiences,
            attempted=uncounted if in_process else known.counts.attempt,
        )
        return self.filters.handler(given, self.server.around_dispatch(self.resources.router.dispatch))

    def let_in(self, identities: Identities) -> None:
        """Authenticate with `identities` from the first request on. Call it before the server listens."""
        self.authentication.let_in(identities)
        identities.objects.attach(self.resources.live, self.storage.cache)
        if identities.issuer is not None:
            self.pages.publish_keys(identities.issuer)

    def upkeep(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What is to run in the background while the server runs."""
        yield from self.storage.upkeep()
        if self.server.cluster_rules is not None:
            yield self.server.cluster_rules.run()
        yield from self.fairness.upkeep()

    async def close(self) -> None:
        """Close what has been opened, the store last."""
        if self.filters.audit is not None:
            await self.filters.audit.close()
        await self.authorization.close()
        await self.resources.live.settings.workers.close()
        await self.storage.close()

    def _collectors(self) -> Iterator[Collector]:
        """What is on the page of metrics, in its order."""
        encryption, audit, in_flight = self.storage.encryption, self.filters.audit, self.fairness.in_flight
        yield self.pages.requests.families
        yield partial(in_flight_families, in_flight)
        yield partial(unsent_families, self.filters.unsent)
        yield self.pages.requests.open_families
        yield lambda: watch_event_families(self.resources.watch_events())
        yield self.storage.metrics.families
        yield lambda: object_families(self.resources.counts())
        if encryption is not None and encryption.reloads:
            yield encryption.counts.key_families
        yield self.authentication.families
        if audit is not None:
            yield audit.counts.families
        if isinstance(in_flight, FairnessFilter):
            yield partial(fairness_families, in_flight.fairness)
        yield self.authorization.counts.families
        yield self.server.admission_counts.families
        yield partial(families_of, self.server.controllers)


def _files(name: str, config: ServerConfig) -> Iterator[StaticFiles]:
    """The pages for browsers that the options name."""
    if not (config.console or config.openapi_ui):
        return
    from oarlock.server.pages.static_files import ConsolePages, OpenAPIPages  # noqa: PLC0415 (few servers need them)

    if config.console:
        yield ConsolePages(name, config)
    if config.openapi_ui:
        yield OpenAPIPages()
