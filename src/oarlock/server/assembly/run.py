"""`Running`: a server that has been started. Loads the store, serves the catalog, and takes everything apart again.

The listener opens first, so that a port in use is detected at once and probes are answered while a large store loads;
until the catalog is served, clients of other requests have to retry later.
Must not know: command lines, signals. See also: `lifecycle`, which decides when; `parts`, what is run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from oarlock.endpoints.catalog import Catalog, CatalogItem
from oarlock.endpoints.http import Handler
from oarlock.meta.context import User
from oarlock.meta.kinds import GroupResource, GroupVersion
from oarlock.policy.authn.authenticator import Authenticator
from oarlock.registry.stored.migration import Progress, migrate
from oarlock.server.assembly.own_work import OwnWork
from oarlock.server.assembly.parts import ServerParts
from oarlock.server.cluster.own_objects import ClusterObjects
from oarlock.server.config import EVERY_INTERFACE
from oarlock.server.description import ServerAddress
from oarlock.server.files.reloaded import ReloadedFiles
from oarlock.server.filters.filter import Leaving
from oarlock.storage.backend import Backend

if TYPE_CHECKING:
    from oarlock.client.client import Client
    from oarlock.client.clock import TimerClock

log = logging.getLogger("oarlock.server")


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

    @property
    def clock(self) -> TimerClock:
        return self.parts.clock

    @property
    def backend(self) -> Backend:
        """The store, as the server uses it."""
        return self.parts.storage.backend

    @property
    def revision(self) -> int:
        """The revision of the store that the watch cache has reached."""
        return self.parts.storage.cache.rev

    async def load(self) -> None:
        """Open the store, serve the catalog, begin the server's own work.

        Raises StorageError, StoreTooNew, and what ``on_start`` raises.
        """
        parts = self.parts
        parts.server.starting = "opening the store"
        await parts.storage.open()
        parts.server.starting = "reading the store"
        await parts.storage.cache.start()
        parts.server.live.begin(self.change)
        await parts.resources.serve(parts.server.catalog, self._address)
        for work in parts.upkeep():
            self.run_in_background(work)
        if parts.server.cluster_rules is not None:
            parts.server.starting = "waiting for the rules of the cluster"
            await parts.server.cluster_rules.ready()
        parts.server.running = self
        parts.server.starting = "in on_start" if parts.server.on_start is not None else "starting controllers"
        await self._own_work.start()
        parts.server.starting = ""
        parts.pages.started = True

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in a task, until it ends or the server closes."""
        self._tasks.append(asyncio.create_task(work))

    def check_files(self) -> None:
        """Read the files that have changed again now, instead of within seconds."""
        for file in self.files:
            file.check()

    async def replace(self, catalog: Catalog) -> None:
        """See `APIServer.replace`."""
        async with self._replacing:
            await self.parts.resources.serve(catalog, self._address)

    async def change(self, put: Sequence[CatalogItem], remove: Sequence[GroupResource | GroupVersion]) -> None:
        """See `APIServer.change`."""
        async with self._replacing:
            table = self.parts.resources.router.route_table
            served = table.catalog if table is not None else self.parts.server.catalog
            await self.parts.resources.serve(served.changed(put, remove), self._address)

    async def migrate(self, resource: GroupResource) -> Progress:
        """See `APIServer.migrate`."""
        stored = self.parts.resources.stored(resource.group, resource.resource)
        if stored is None:
            raise LookupError(f"{resource} isn't stored here")
        return await migrate(self.parts.storage.backend, stored.served)

    def client(self, user: User | None, field_manager: str) -> Client:
        """See `APIServer.client`."""
        # Imported here, because most servers have no code that asks them.
        from oarlock.client.client import Client  # noqa: PLC0415 (see above)
        from oarlock.server.local.transport import APISERVER, FixedUser, LocalTransport  # noqa: PLC0415 (see above)

        handle = self.parts.handler(FixedUser(user or APISERVER), in_process=True)
        parts, rules = self.parts, self.parts.server.cluster_rules
        around: dict[str, Any] = {}
        if user is None and rules is not None:  # the cluster knows the server's own user, and no other
            around["beyond"] = ClusterObjects(rules.client.transport, parts.server.serves_group)
        transport = LocalTransport(
            handle,
            parts.clock,
            max_body=parts.config.max_request_bytes,
            find=parts.resources.stored,
            served_now=lambda: parts.server.live.current,
            **around,
        )
        return Client(transport, field_manager=field_manager)

    async def shut_down(self) -> None:
        """Shut down in phases: fail ``/readyz``, wait, refuse new requests, end watches, finish the rest, close.

        Load balancers that watch ``/readyz`` have switched before anything is refused. Watches end as with a timeout,
        after which every client starts a new one.
        """
        parts, listening = self.parts, self._listening
        parts.server.running = None
        parts.pages.shutting_down = True
        delay_s = parts.config.shutdown_delay_s
        stopping = asyncio.ensure_future(self._own_work.stop(delay_s))
        if delay_s:
            log.info("shutting down in %g s", delay_s)
            await asyncio.sleep(delay_s)
        await stopping
        parts.filters.shutdown.leaving = Leaving.SOON
        listening.stop_accepting()
        parts.resources.router.watches.end_all()
        unfinished = await listening.drain(parts.config.request_timeout_s)
        if unfinished:
            log.warning("%d connections had not finished after %g s", unfinished, parts.config.request_timeout_s)
        await self.close()

    async def close(self) -> None:
        """Cut what is left and close the store. Safe after a failed `load`."""
        await self._own_work.stop()
        self.parts.filters.shutdown.leaving = Leaving.NOW
        await self._listening.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.parts.close()
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
