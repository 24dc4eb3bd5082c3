"""`ServerDescription`: what a server is made from, and what is known of it while it runs; its `LiveCatalog`.

`APIServer` is one, with the checks and operations for users. What runs a server takes a description, so that it needs
no import of `app`, which imports it. See also: ``assembly.parts``, which makes a server of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from oarlock.client.clock import Flag
from oarlock.client.informers.informer import Informer
from oarlock.endpoints.catalog import Catalog, CatalogItem
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupResource, GroupVersion
from oarlock.net.futures import shared
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.admission.plugin import Admission, AnyPlugin
from oarlock.policy.authn.authenticator import Authenticator
from oarlock.policy.authz.authorizer import Authorizer
from oarlock.policy.authz.union import Access
from oarlock.server.assembly.own_work import Runnable, ServerHook
from oarlock.server.filters.filter import Next
from oarlock.storage.backend import Backend

if TYPE_CHECKING:
    from oarlock.client.client import Client
    from oarlock.client.clock import TimerClock
    from oarlock.meta.context import User
    from oarlock.registry.stored.migration import Progress
    from oarlock.server.assembly.identities import Identities
    from oarlock.server.config import ServerConfig

ChangeCatalog = Callable[[Sequence[CatalogItem], Sequence[GroupResource | GroupVersion]], Awaitable[None]]
"""How a running server changes its catalog."""


class CatalogSource(Protocol):
    """A source of catalog entries that are made from stored objects. It may lag behind the store for a moment."""

    def behind(self) -> bool:
        """Whether something in the watch cache isn't in the catalog yet."""
        ...

    async def caught_up(self) -> None:
        """Wait until the catalog has everything that the watch cache had at the time of the call."""
        ...


class LiveCatalog:
    """The catalog that a server serves. `sources` change it when stored objects change.

    If it is `filled_at_start`, it isn't complete at first: resources may be missing until it is `complete`.
    """

    def __init__(self) -> None:
        self.sources: list[CatalogSource] = []
        self.filled_at_start = False
        self.complete = True
        self._catalog: Catalog | None = None
        self._change: ChangeCatalog | None = None
        self._next: asyncio.Future[None] | None = None

    def begin(self, change: ChangeCatalog) -> None:
        """Called by the server that starts."""
        self._change = change
        self._catalog, self._next = None, None
        self.complete = not self.filled_at_start

    def replaced(self, catalog: Catalog) -> None:
        """Called by the server when it serves `catalog`."""
        self._catalog = catalog
        waiting, self._next = self._next, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    @property
    def current(self) -> Catalog | None:
        """What is served now; None before the server has loaded anything."""
        return self._catalog

    async def after(self, catalog: Catalog | None) -> Catalog:
        """What is served now, as soon as that is another catalog than `catalog`."""
        while self._catalog is None or self._catalog is catalog:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            await shared(self._next)
        return self._catalog

    async def after_or(self, catalog: Catalog, wake: Flag) -> Catalog:
        """What is served now, as soon as that is another catalog than `catalog`, or `wake` is set."""
        waits = [asyncio.ensure_future(self.after(catalog)), asyncio.ensure_future(wake.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self._catalog if self._catalog is not None else catalog

    async def change(
        self, *, put: Iterable[CatalogItem] = (), remove: Iterable[GroupResource | GroupVersion] = ()
    ) -> None:
        """As `APIServer.change`. Raises RuntimeError before the server starts."""
        if self._change is None:
            raise RuntimeError("the server hasn't started")
        await self._change(tuple(put), tuple(remove))


class OwnPages(Protocol):
    """Paths that a server answers beside its API."""

    @property
    def paths(self) -> Sequence[str]: ...

    async def respond(self, state: RequestState) -> Response | None:
        """The answer; None for a path that isn't in `paths`. Raises `StatusError`."""
        ...


class ReferringObject(NamedTuple):
    """An object of a cluster by which it finds a server, such as an APIService: its kind, with the version."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class UserCode:
    """What a server has of its user's code, without what it has itself."""

    admission: Sequence[Admission[Any] | AdmissionPlugin] = ()
    informers: Sequence[Informer[Any]] = ()
    controllers: Sequence[Runnable] = ()


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server. `ca` is the CA to trust, in PEM; None if the system trusts it, or without TLS."""

    url: str
    ca: bytes | None = None


class RunningServer(Protocol):
    """A server that has been started; ``assembly.run`` has it."""

    @property
    def clock(self) -> TimerClock: ...

    @property
    def backend(self) -> Backend:
        """The store, as the server uses it."""
        ...

    @property
    def revision(self) -> int:
        """The revision of the store that the server has reached."""
        ...

    async def replace(self, catalog: Catalog) -> None:
        """See `APIServer.replace`."""
        ...

    async def change(self, put: Sequence[CatalogItem], remove: Sequence[GroupResource | GroupVersion]) -> None:
        """See `APIServer.change`."""
        ...

    async def migrate(self, resource: GroupResource) -> Progress:
        """See `APIServer.migrate`."""
        ...

    def client(self, user: User | None, field_manager: str) -> Client:
        """See `APIServer.client`."""
        ...


class ClusterRules(Protocol):
    """The admission rules of the cluster that a server stands behind, and the way to it."""

    @property
    def client(self) -> Client:
        """A client of the cluster, as the server's own user there."""
        ...

    def plugins(self, users: Sequence[AnyPlugin]) -> Sequence[AnyPlugin]:
        """The admission plugins of writes, in order, with the server's own."""
        ...

    def unknown(self) -> str:
        """Why the rules aren't known well enough to write by; empty while they are."""
        ...

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        ...

    async def ready(self) -> None:
        """Wait until the rules are known, for some seconds at most."""
        ...


class ServerDescription:
    """What a server is made from (see `APIServer` for each), and its state from `source` on."""

    catalog: Catalog
    """What it starts with; `live` has what is served now."""
    admission: tuple[Admission[Any] | AdmissionPlugin, ...]
    informers: tuple[Informer[Any], ...]
    garbage_collection: Literal["none", "external"]
    authenticators: tuple[Authenticator, ...]
    authorizer: Authorizer | None
    access: Access
    admission_counts: AdmissionCounts
    live: LiveCatalog
    default_authorization: tuple[str, ...] = ()
    """The authorization modes of a server whose options name none."""
    controllers: tuple[Runnable, ...]
    on_start: ServerHook | None
    on_stop: ServerHook | None
    name: str
    storage: Backend | None
    around_dispatch: Callable[[Next], Next]
    """What stands before what carries out requests that were authorized; nothing but in a test."""

    user_code: UserCode
    pages: tuple[OwnPages, ...] = ()
    start_conditions: Mapping[str, Callable[[], bool]] = MappingProxyType({})
    """What must be true before it is ready, besides what every server waits for, by its name."""
    work: str = ""
    """What the start prints in place of where its objects are."""
    reached_by: Path | None = None
    """The kubeconfig of the server in front, by which clients reach this one."""

    source: str = "SERVER"
    """Where commands find this server; the command that found it says so."""
    cluster_rules: ClusterRules | None = None
    """Those that apply besides its own, while it runs."""
    running: RunningServer | None = None
    identities: Identities | None = None
    """Who is let in, while it runs with options."""
    starting: str = ""
    """What its start is doing; empty before and after."""
    address: ServerAddress | None = None
    """Where clients reach it, from before ``on_start`` on."""

    def serves_group(self, group: str) -> bool:
        """Whether it serves something of an API group now."""
        return group in (self.live.current or self.catalog).groups

    def told_by(self) -> Sequence[ReferringObject]:
        """The objects by which a cluster finds this server: the APIServices of what it serves."""
        names = [f"{version}.{group.name}" for group in self.catalog.in_order() for version in group.versions]
        return [ReferringObject("apiregistration.k8s.io/v1/APIService", name) for name in names]

    def configured(self, config: ServerConfig) -> ServerConfig:
        """The options as this server runs with them. Subclasses may have other defaults for those that aren't given."""
        return config

    def rules_of_cluster(self, config: ServerConfig, clock: TimerClock) -> ClusterRules | None:
        """The rules of the cluster that options name, None without one. Raises `BadFile`, `ConfigError`."""
        return None

    def prepared(self, config: ServerConfig) -> ServerConfig:
        """The options once the data directory is there. Subclasses may have made files in it that options name."""
        return config
