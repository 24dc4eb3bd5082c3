"""Assembles a server: backend → cache → resources → router → filters → listener; and takes it apart again.

The listener opens first, so that a port in use is detected at once and probes are answered while a large store loads;
until the catalog is served, other requests are told to retry later.
Must not know: command lines, signals. See also: `lifecycle`, which decides when; `chain`, the filters.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

import re2

from oarlock.client.informer import Informer
from oarlock.endpoints.catalog import Catalog, Entry
from oarlock.endpoints.http import Handler, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route_table import About, RouteTable
from oarlock.endpoints.routing.router import Router
from oarlock.endpoints.unsent import Unsent
from oarlock.meta.context import Context, User
from oarlock.meta.go.gotext import quote
from oarlock.meta.kinds import GroupResource, GroupVersion
from oarlock.policy.admission.chain import AdmissionChain, AdmissionPlugin
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.admission.plugin import Admission
from oarlock.policy.admission.typed import TypedPlugin
from oarlock.policy.authn.authenticator import Authenticator
from oarlock.policy.authn.front_proxy_headers import FrontProxyHeaders
from oarlock.policy.authz.access import Access
from oarlock.policy.authz.authorizer import Authorizer, forbidden
from oarlock.policy.fairness.engine import Fairness
from oarlock.registry.live_resources import LiveResources
from oarlock.registry.read.cached_objects import CachedObjects, selection_of
from oarlock.registry.settings import Settings
from oarlock.registry.stored.migration import Progress, migrate
from oarlock.registry.stored.resource import StoredResource
from oarlock.schema.types.projections import projection_of
from oarlock.schema.types.resources import declared
from oarlock.server import chain
from oarlock.server.address import ServerAddress
from oarlock.server.assembly.identities import Identities, anonymous_of
from oarlock.server.assembly.own_work import OwnWork, Runnable, ServerHook, numbers_of
from oarlock.server.assembly.store_integrity import StoreIntegrity
from oarlock.server.audit.server_audit import ServerAudit
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.authorization.assembly import ServerAuthorization
from oarlock.server.config import EVERY_INTERFACE, ServerConfig
from oarlock.server.fairness.feed import GROUP as FLOW_CONTROL
from oarlock.server.fairness.feed import KINDS as FLOW_CONTROL_KINDS
from oarlock.server.fairness.feed import FairnessFeed
from oarlock.server.fairness.pages import FairnessPages
from oarlock.server.files.reloaded import ReloadedFiles
from oarlock.server.files.store_mark import SeenStore, StoreMark
from oarlock.server.filters.audit import Audit
from oarlock.server.filters.authentication import uncounted
from oarlock.server.filters.connection_headers import go_away, strict_transport_security
from oarlock.server.filters.cors import Cors
from oarlock.server.filters.fairness import FairnessFilter
from oarlock.server.filters.filter import Finish, Next
from oarlock.server.filters.max_in_flight import MaxInFlight
from oarlock.server.filters.memory import MemoryReserve, is_limited
from oarlock.server.filters.shutdown import Leaving, Shutdown
from oarlock.server.live_catalog import LiveCatalog
from oarlock.server.metrics.counts import RequestMetrics, StoreMetrics
from oarlock.server.metrics.page import MetricsPage, Sources, WorkersMetrics
from oarlock.server.metrics.timed_backend import TimedBackend
from oarlock.server.pages.health import Conditions, Health, checks_of, in_time
from oarlock.server.pages.issuer import IssuerPages
from oarlock.storage.backend import Backend
from oarlock.storage.cache.watch_cache import WatchCache
from oarlock.storage.care.unfinished import must_be_complete
from oarlock.storage.compactor import Compactor

if TYPE_CHECKING:
    from oarlock.client.client import Client
    from oarlock.client.clock import TimerClock
    from oarlock.server.encryption.reload import ServerEncryption
    from oarlock.server.pages.debug import DebugPages

__all__ = ["Running", "ServerDescription", "ServerParts", "assemble"]

log = logging.getLogger("oarlock.server")
access_log = logging.getLogger("oarlock.access")

LOGGED = 2048  # characters of each thing that a client spells
STORE_CHECK_S = 2.0


class ServerDescription(Protocol):
    """What a server is made from. `APIServer` is one; it can't be imported here."""

    catalog: Catalog
    admission: tuple[Admission[Any] | AdmissionPlugin, ...]
    informers: tuple[Informer[Any], ...]
    garbage_collection: Literal["none", "external"]
    authenticators: tuple[Authenticator, ...]
    authorizer: Authorizer | None
    access: Access
    admission_counts: AdmissionCounts
    live: LiveCatalog
    default_authorization: tuple[str, ...]
    name: str
    storage: Backend | None
    controllers: tuple[Runnable, ...]
    on_start: ServerHook | None
    on_stop: ServerHook | None
    source: str
    running: Running | None
    identities: Identities | None
    address: ServerAddress | None
    around_dispatch: Callable[[Next], Next]
    starting: str

    def configured(self, config: ServerConfig) -> ServerConfig: ...
    def prepared(self, config: ServerConfig) -> ServerConfig: ...


def _member(plugin: Admission[Any] | AdmissionPlugin) -> AdmissionPlugin:
    return TypedPlugin(plugin) if isinstance(plugin, Admission) else plugin


class ServerParts:
    """The parts of a server that both requests and the lifecycle use."""

    def __init__(
        self,
        server: ServerDescription,
        config: ServerConfig,
        backend: Backend,
        clock: TimerClock,
        workers_metrics: WorkersMetrics | None = None,
        encryption: ServerEncryption | None = None,
    ) -> None:
        self.server = server
        self.config = config
        self.clock = clock
        self.store_metrics = StoreMetrics()
        self.encryption = encryption
        self.backend = TimedBackend(backend if encryption is None else encryption.backend, self.store_metrics, clock)
        self.cache = WatchCache(self.backend, clock=clock)
        settings = Settings(
            garbage_collection=server.garbage_collection,
            check_command=f"oarlock storage check --schemas {server.source} --storage {config.shown_storage}",
        )
        self.live = LiveResources(self.backend, self.cache, settings)
        self.router = Router(self._own_response, self._catalog_caught_up, lambda: server.live.complete)
        self.shutdown = Shutdown()
        self.unsent = Unsent(config.max_unsent_bytes)
        self.in_flight = self._in_flight()
        self.authorization = ServerAuthorization(server.authorizer, config, clock, server.default_authorization)
        self.authorization.check(server.catalog)
        self.authorizer = self.authorization.authorizer
        server.access.begin(self.authorizer, self.authorization.policy)
        self.anonymous = anonymous_of(config)
        self.front_proxy = FrontProxyHeaders()
        self.audiences: tuple[str, ...] = ()
        self.authentication = AuthenticationCounts()
        self._authentication_numbers = self.authentication.copy
        self.audit = _audit(config, clock)
        self.issuer_pages: IssuerPages | None = None
        self.admission = AdmissionChain(map(_member, server.admission), self._authorize, server.admission_counts)
        self.store_integrity = StoreIntegrity(self.backend)
        self.store_mark: StoreMark | None = None
        checks = checks_of(self._conditions())
        self.health = Health(checks if encryption is None else [*checks, *encryption.checks()])
        fair = self.in_flight if isinstance(self.in_flight, FairnessFilter) else None
        self.fairness_pages = None if fair is None else FairnessPages(fair.fairness, clock)
        self.fairness_feed = None if fair is None else FairnessFeed(fair.fairness)
        debug_paths = () if self.fairness_pages is None else self.fairness_pages.paths
        own_paths = (*self.health.paths, *MetricsPage.paths, *debug_paths)
        self.debug_pages = _debug_pages(server.name, config, clock, own_paths)
        self.own_paths = (*own_paths, *(() if self.debug_pages is None else self.debug_pages.paths))
        self.request_metrics = RequestMetrics(frozenset((*self.own_paths, "/version")))
        reloads = encryption.counts if encryption is not None and encryption.reloads else None
        sources = Sources(
            self.request_metrics,
            self.store_metrics,
            self.in_flight,
            self.unsent,
            self._objects,
            self._watch_events,
            reloads,
            None if self.audit is None else self.audit.counts,
            self.authorization.counts,
            partial(numbers_of, server.controllers),
            lambda: self._authentication_numbers(),
            server.admission_counts,
        )
        self.metrics = MetricsPage(sources, self.health, workers_metrics)
        self._informed: dict[Informer[Any], StoredResource] = {}
        self.started = False
        """Whether ``on_start`` has ended."""
        self.shutting_down = False
        self.opened = False

    def handler(self, authenticator: Authenticator, *, in_process: bool = False) -> Handler:
        """The filter chain as a handler for the serving layer, or for code in this process.

        Requests of the latter aren't counted among those in flight, and never refused because there are too many: each
        is waited for by code of the server itself, and its answer is in memory anyway.
        """
        chain_config = chain.ChainConfig(
            resolve=self.router.resolve,
            authenticator=authenticator,
            authorizer=self.authorizer,
            access=self.authorization.counts,
            observe=self._observe_and_log if self.config.verbosity >= 3 else self.request_metrics.observe,
            shutdown=self.shutdown,
            max_in_flight=None if in_process else self.in_flight,
            memory=MemoryReserve() if is_limited() else None,
            audit=None if self.audit is None else Audit(self.audit),
            cors=_cors(self.config),
            connection_headers=_connection_headers(self.config),
            request_timeout_s=self.config.request_timeout_s,
            anonymous=self.anonymous,
            front_proxy=self.front_proxy,
            audiences=frozenset(self.audiences),
            attempted=uncounted if in_process else self.authentication.attempt,
        )
        return chain.build(chain_config, self.server.around_dispatch(self._dispatch), self.clock, self.unsent)

    def let_in(self, identities: Identities) -> None:
        """Let in whom `identities` knows, from the first request on. Call it before the server listens."""
        self.front_proxy, self.audiences = identities.front_proxy, identities.audiences
        self.anonymous, self.authentication = identities.anonymous, identities.counts
        self._authentication_numbers = identities.numbers
        identities.objects.attach(self.live, self.cache)
        if identities.issuer is not None:
            self.issuer_pages = IssuerPages(identities.issuer, self.config.service_account_jwks_uri)
            self.own_paths = (*self.own_paths, *self.issuer_pages.paths)

    def remember_store(self) -> None:
        """Remember in the data directory what is seen of the store, to find out when it was put back."""
        file, cache = self.config.store_mark, self.cache
        self.store_mark = StoreMark(file, lambda: SeenStore(cache.epoch, cache.rev), self._fresh, self.backend)

    async def serve_catalog(self, catalog: Catalog, address: str) -> None:
        """Load `catalog` and serve it from the next request on. If that fails, nothing has changed."""
        offload = self.live.settings.workers.offload
        before = self.router.route_table
        if before is not None:
            catalog = await offload(catalog.sharing, before.catalog)
        change = catalog.since(before.catalog if before is not None else Catalog.of(()))
        informers = self.server.informers
        loaded = await self.live.load(change.put, change.removed)
        try:
            about = About(self.config.version, self.own_paths, address, offload)
            route_table = RouteTable(catalog, change, loaded.resources, self.admission, about, before)
            readers = [self._reader(informer, *_resource_of(route_table, informer.kind)) for informer in informers]
            await self.live.record(change.put)
        except BaseException:
            self.live.discard(loaded)
            raise
        # From here on nothing waits and nothing fails: the replacement is one step of the event loop.
        for attach in readers:
            attach()
        self.authorization.attach(route_table.resources)
        if self.fairness_feed is not None:
            self.fairness_feed.attach(route_table.resources)
        self.router.replace(route_table, self.live.commit(loaded))
        self.server.live.replaced(catalog)

    def _reader(self, informer: Informer[Any], resource: StoredResource, version: str) -> Callable[[], None]:
        """What lets the informer read `resource`, unless it does. Raises BadRequest for a wrong selector."""
        selection = selection_of(resource, version, informer.query)

        def attach() -> None:
            if self._informed.get(informer) is not resource:
                self._informed[informer] = resource
                show = projection_of(informer.kind).view
                objects = CachedObjects(resource, version, show, informer.observers, informer.namespace, selection)
                informer.attach(objects)

        return attach

    def _dispatch(self, state: RequestState) -> Coroutine[Any, Any, Response]:
        return self._before_catalog(state) if state.route is None else self.router.dispatch(state)

    async def _before_catalog(self, state: RequestState) -> Response:
        """Probes are answered although there is no catalog yet."""
        own = await self._own_response(state)
        return await self.router.dispatch(state) if own is None else own

    async def _own_response(self, state: RequestState) -> Response | None:
        """Answer the server's own paths."""
        path, debug = state.request.path, self.fairness_pages
        own = None if debug is None else debug.respond(path, state.request.query)
        own = own or await self.health.respond(state) or await self.metrics.respond(path)
        if own is None and self.debug_pages is not None:
            own = await self.debug_pages.respond(state)
        return self.issuer_pages.respond(state) if own is None and self.issuer_pages is not None else own

    def _in_flight(self) -> MaxInFlight | FairnessFilter:
        """What limits the requests that are carried out at a time."""
        config, wanted = self.config, self.config.enable_priority_and_fairness
        if wanted or (wanted is None and _serves_flow_schemas(self.server.catalog)):
            seats = config.max_read_only_in_flight + config.max_mutating_in_flight
            fairness = Fairness(seats, self.clock.monotonic)
            return FairnessFilter(fairness, self.clock, self._stored, config.request_timeout_s)
        return MaxInFlight(config.max_read_only_in_flight, config.max_mutating_in_flight)

    def _stored(self, group: str, resource: str) -> int | None:
        found = self.live.resources.get((group, resource))
        return len(found.cache) if isinstance(found, StoredResource) else None

    async def _authorize(self, ctx: Context, verb: str) -> None:
        target = replace(ctx.target, verb=verb)
        decision = await self.authorizer.decide(ctx.user, target)
        if not decision.allowed:
            raise forbidden(ctx.user, target, decision.reason)

    def _conditions(self) -> Conditions:
        store, cache = in_time(self.backend.current_rev, STORE_CHECK_S), in_time(self._fresh, STORE_CHECK_S)

        async def store_answers() -> str:
            return await store() if self.opened else "the store is being opened"

        async def cache_is_current() -> str:
            return await cache() if self._is_served() else "resources are being loaded"

        informers, name = self.server.informers, self.server.name
        started: dict[str, Callable[[], bool]] = {}
        if informers:
            started[f"start-{name}-informers"] = lambda: all(one.attached for one in informers)
        if self.server.on_start is not None:
            started[f"start-{name}-on-start"] = lambda: self.started
        return Conditions(
            store=store_answers,
            cache=cache_is_current,
            integrity=self.store_integrity.test,
            served=self._is_served,
            shutting_down=lambda: self.shutting_down,
            started=started,
        )

    def stored_resource(self, group: str, plural: str) -> StoredResource | None:
        """The resource that is served by this name, if it is stored here."""
        table = self.router.route_table
        resource = None if table is None else table.resources.get((group, plural))
        return resource if isinstance(resource, StoredResource) else None

    def _is_served(self) -> bool:
        return self.router.route_table is not None

    async def _fresh(self) -> None:
        """Returns when the watch cache has everything that the store has."""
        waiting = self.cache.fresh()
        if waiting is not None:
            await waiting

    async def _catalog_caught_up(self) -> bool:
        """Bring the catalog up to date with the store; whether there is anything by which it may have been behind."""
        sources = self.server.live.sources
        if not sources:
            return False
        waiting = self.cache.fresh()
        behind = waiting is not None
        if waiting is not None:
            await waiting
        for source in sources:
            if source.behind():
                behind = True
                await source.caught_up()
        return behind

    def _objects(self) -> dict[tuple[str, str], int]:
        stored = [one for one in self.live.resources.values() if isinstance(one, StoredResource)]
        return {(one.definition.group, one.definition.names.plural): len(one.cache) for one in stored}

    def _watch_events(self) -> dict[tuple[str, str, str], int]:
        return self.router.watches.events

    def _observe_and_log(self, state: RequestState, response: Response) -> None:
        self.request_metrics.observe(state, response)
        response.on_sent(partial(self._log, state, response.status))

    def _log(self, state: RequestState, status: int, whole: bool) -> None:
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


def _debug_pages(name: str, config: ServerConfig, clock: TimerClock, paths: Sequence[str]) -> DebugPages | None:
    if not config.debug_pages and not config.profiling:
        return None
    from oarlock.server.pages.debug import DebugPages  # noqa: PLC0415 (few servers need the profiler)

    began = clock.monotonic()
    return DebugPages(name, config, clock, lambda: clock.monotonic() - began, paths)


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


class Running:
    """A server that has been started, at `url`."""

    def __init__(self, parts: ServerParts, listening: Any, url: str, ca: bytes | None = None) -> None:
        self.parts = parts
        self.url = url
        parts.server.address = ServerAddress(url, ca)
        self.files: tuple[ReloadedFiles, ...] = ()
        """Those that are read again when they change."""
        self._listening = listening
        address = url.removeprefix("https://")
        self._address = address[address.rindex(":") :] if parts.config.bind_address in EVERY_INTERFACE else address
        self._replacing = asyncio.Lock()
        server = parts.server
        self._own_work = OwnWork(
            server.controllers, server.on_start, server.on_stop, partial(self.client, None), parts.clock
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def load(self) -> None:
        """Open the store, serve the catalog, begin the server's own work.

        Raises StorageError, StoreTooNew, and what ``on_start`` raises.
        """
        parts = self.parts
        parts.server.starting = "opening the store"
        await parts.backend.start()
        parts.opened = True
        await must_be_complete(parts.backend)
        if parts.store_mark is not None:
            await parts.store_mark.recognise(parts.backend)
        parts.server.starting = "reading the store"
        await parts.cache.start()
        parts.server.live.begin(self.change)
        await parts.serve_catalog(parts.server.catalog, self._address)
        if parts.config.compaction_interval_s:
            self.run_in_background(
                Compactor(parts.backend, parts.clock, interval_s=parts.config.compaction_interval_s).run()
            )
        self.run_in_background(parts.store_integrity.run())
        if parts.store_mark is not None:
            self.run_in_background(parts.store_mark.run())
        if parts.encryption is not None and parts.encryption.reloads:
            self.run_in_background(parts.encryption.follow())
        if isinstance(parts.in_flight, FairnessFilter) and parts.fairness_feed is not None:
            self.run_in_background(parts.in_flight.run(parts.fairness_feed.renew))
        parts.server.running = self
        parts.server.starting = "in on_start" if parts.server.on_start is not None else "starting controllers"
        await self._own_work.start()
        parts.server.starting = ""
        parts.started = True

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in a task, until it ends or the server closes."""
        self._tasks.append(asyncio.create_task(work))

    def check_files(self) -> None:
        """Read the files that have changed again now, instead of within seconds."""
        for one in self.files:
            one.check()

    async def replace(self, catalog: Catalog) -> None:
        """See `APIServer.replace`."""
        async with self._replacing:
            await self.parts.serve_catalog(catalog, self._address)

    async def change(self, put: Sequence[Entry], remove: Sequence[GroupResource | GroupVersion]) -> None:
        """See `APIServer.change`."""
        async with self._replacing:
            table = self.parts.router.route_table
            served = table.catalog if table is not None else self.parts.server.catalog
            await self.parts.serve_catalog(served.changed(put, remove), self._address)

    async def migrate(self, resource: GroupResource) -> Progress:
        """See `APIServer.migrate`."""
        stored = self.parts.stored_resource(resource.group, resource.resource)
        if stored is None:
            raise LookupError(f"{resource} isn't stored here")
        return await migrate(self.parts.backend, stored.served)

    def client(self, user: User | None, field_manager: str) -> Client:
        """See `APIServer.client`."""
        # Imported here, because most servers have no code that asks them.
        from oarlock.client.client import Client  # noqa: PLC0415 (see above)
        from oarlock.server.local.transport import APISERVER, FixedUser, LocalTransport  # noqa: PLC0415 (see above)

        handle = self.parts.handler(FixedUser(user or APISERVER), in_process=True)
        limit = self.parts.config.max_request_bytes
        parts = self.parts
        transport = LocalTransport(
            handle,
            parts.clock,
            max_body=limit,
            find=parts.stored_resource,
            served_now=lambda: parts.server.live.current,
        )
        return Client(transport, field_manager=field_manager)

    async def shut_down(self) -> None:
        """Shut down in phases: fail ``/readyz``, wait, refuse new requests, end watches, finish the rest, close.

        Load balancers that watch ``/readyz`` have switched before anything is refused. Watches end as with a timeout,
        after which every client starts a new one.
        """
        parts, listening = self.parts, self._listening
        parts.server.running = None
        parts.shutting_down = True
        delay_s = parts.config.shutdown_delay_s
        stopping = asyncio.ensure_future(self._own_work.stop(delay_s))
        if delay_s:
            log.info("leaving in %g s", delay_s)
            await asyncio.sleep(delay_s)
        await stopping
        parts.shutdown.leaving = Leaving.SOON
        listening.stop_accepting()
        parts.router.watches.end_all()
        unfinished = await listening.drain(parts.config.request_timeout_s)
        if unfinished:
            log.warning("%d connections had not finished after %g s", unfinished, parts.config.request_timeout_s)
        await self.close()

    async def close(self) -> None:
        """Cut what is left and close the store. Safe after a failed `load`."""
        await self._own_work.stop()
        self.parts.shutdown.leaving = Leaving.NOW
        await self._listening.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self.parts.audit is not None:
            await self.parts.audit.close()
        await self.parts.authorization.close()
        await self.parts.live.settings.workers.close()
        if self.parts.store_mark is not None and self.parts.opened:
            await self.parts.store_mark.save()
        await self.parts.cache.close()
        await self.parts.backend.close()
        self.parts.server.identities = None


Listen = Callable[[Handler], Awaitable[Any]]


async def assemble(
    parts: ServerParts, authenticator: Authenticator, listen: Listen, ca: bytes | None = None
) -> Running:
    """Listen with `listen` (``serving.serve`` with its configuration); only probes are answered until `load`.

    `ca` is the certificate that clients must trust, None if it is one of the system's.
    """
    listening = await listen(parts.handler(authenticator))
    host = parts.config.bind_address
    host = f"[{host}]" if ":" in host else host
    return Running(parts, listening, f"https://{host}:{listening.port}", ca)


def _serves_flow_schemas(catalog: Catalog) -> bool:
    """Whether priority and fairness can be configured by objects."""
    group = catalog.groups.get(FLOW_CONTROL)
    return group is not None and all(plural in group.resources for plural in FLOW_CONTROL_KINDS)


def _resource_of(table: RouteTable, kind: type[Any]) -> tuple[StoredResource, str]:
    declaration = declared(kind)
    group = table.catalog.groups.get(declaration.group)
    for plural, served in group.resources.items() if group is not None else ():
        resource = table.resources[(declaration.group, plural)]
        if served.definition.names.kind == declaration.kind and isinstance(resource, StoredResource):
            return resource, declaration.version
    raise LookupError(
        f"an informer of {kind.__name__} is listed, and {kind.__name__} is not served: add it to serve=[…]"
    )
