"""`FollowedKinds`: the metadata of everything that is served, kept current while kinds come and go.

Must not know: owners. See also: `collector`, which is told of changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from oarlock.apps.controllers.served_kinds import LiveKinds, ServedKind, ServedKinds, served_kinds
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.observers import Observer, ReadableObject
from oarlock.client.informers.partial_objects import MetadataInformer, PartialObject
from oarlock.client.transport import TransportError
from oarlock.endpoints.catalog import Catalog
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import StatusError
from oarlock.meta.kinds import GroupResource, NamespacedName
from oarlock.net.backoff import Backoff
from oarlock.server.description import LiveCatalog

log = logging.getLogger("oarlock.controllers")

LOOK_AGAIN_S = 30.0
"""How long until discovery is asked again whether kinds have come or gone that other servers serve."""

CALM_S = 0.5
"""How long is waited for more kinds when some have come."""

SYNC_S = 30.0
"""How long is waited at first for kinds that can't be listed; the others are served without them."""

FEW = 16
"""How many informers begin in one turn of the loop."""

AGAIN = Backoff(1.0, 30.0)

EVENTS = frozenset((GroupResource("", "events"), GroupResource("events.k8s.io", "events")))
"""They are many, own nothing, and end by themselves."""

OnChange = Callable[
    [ServedKind, NamespacedName, ReadableObject[PartialObject] | None, ReadableObject[PartialObject] | None], None
]


@dataclass(slots=True)
class KindListener:
    """Receives each change of an object, each new kind, and each kind that isn't served any more."""

    changed: OnChange
    appeared: Callable[[ServedKinds], None]
    disappeared: Callable[[ServedKind], None]


@dataclass(slots=True)
class _Following:
    kind: ServedKind
    informer: MetadataInformer
    task: asyncio.Task[None]


class FollowedKinds:
    """Follows from `run` until that is cancelled. Reads with `client`; `live` is what its server serves, if known."""

    def __init__(
        self, client: Client, clock: TimerClock, listener: KindListener, live: LiveCatalog | None = None
    ) -> None:
        self.served = ServedKinds()
        self._live = live
        self._live_kinds = LiveKinds()
        self._catalog: Catalog | None = None
        self._client = client
        self._clock = clock
        self._listener = listener
        self._following: dict[GroupResource, _Following] = {}
        self._synced = asyncio.Event()

    def get(self, kind: ServedKind, namespace: str, name: str) -> PartialObject | None:
        """An object, as far as it is known here; it may be newer, or exist although it isn't known."""
        following = self._following.get(kind.resource)
        if following is None or not following.informer.attached:
            return None
        return following.informer.get(name, namespace)

    def names_of(self, resource: GroupResource) -> list[str]:
        """The names of all known objects of a resource of the cluster."""
        following = self._following.get(resource)
        if following is None or not following.informer.attached:
            return []
        return following.informer.names()

    async def synced(self) -> None:
        """Wait until everything that existed is known, or can't be known for now."""
        await self._synced.wait()

    async def run(self) -> None:
        try:
            while True:
                self._catalog = None if self._live is None else self._live.current
                await self._look()
                if not self._synced.is_set():
                    await self._first_sync()
                await self._pause(LOOK_AGAIN_S)
        finally:
            tasks = [followed.task for followed in self._following.values()]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _look(self) -> None:
        """Follow what is served now."""
        try:
            served = await self._served_now()
        except (StatusError, TransportError) as error:
            log.warning("garbage collection doesn't know what is served: %s", error)
            return
        kinds = {kind.resource: kind for kind in served.with_verbs("list", "watch", "delete")}
        for resource, following in tuple(self._following.items()):
            kind_now = kinds.get(resource)
            moved = kind_now is not None and kind_now.ref != following.kind.ref
            if moved or (kind_now is None and not _may_be_stale(served, following.kind)):
                following.task.cancel()
                del self._following[resource]
                self._listener.disappeared(following.kind)
        appeared = served.by_kind.keys() - self.served.by_kind.keys()
        self.served = served
        for resource, kind in kinds.items():
            if resource not in self._following and resource not in EVENTS:
                self._follow(kind)
                if not len(self._following) % FEW:
                    await asyncio.sleep(0)  # there may be thousands: requests come in between
        if appeared:
            self._listener.appeared(served)

    async def _served_now(self) -> ServedKinds:
        if self._catalog is None:
            return await served_kinds(self._client)
        return self._live_kinds.read(self._catalog)

    def _follow(self, kind: ServedKind) -> None:
        informer = MetadataInformer(kind.ref, self._client)
        changed = self._listener.changed
        informer.observers.add(Observer(lambda key, old, new: changed(kind, key, old, new)))
        task = asyncio.create_task(self._keep(informer, kind), name=f"garbage collection of {kind.resource}")
        self._following[kind.resource] = _Following(kind, informer, task)

    async def _keep(self, informer: MetadataInformer, kind: ServedKind) -> None:
        pauses = AGAIN.pauses()
        while True:
            try:
                await informer.run()
            except (StatusError, TransportError) as error:
                log.info("garbage collection can't follow %s, again in %g s: %s", kind.resource, pauses.next_s, error)
            except Exception:
                log.exception("garbage collection can't follow %s, again in %g s", kind.resource, pauses.next_s)
            await self._clock.sleep(pauses.take())

    async def _first_sync(self) -> None:
        syncing = [asyncio.ensure_future(followed.informer.synced()) for followed in self._following.values()]
        timer = asyncio.ensure_future(self._clock.sleep(SYNC_S))
        everything = asyncio.ensure_future(asyncio.wait(syncing)) if syncing else timer
        try:
            await asyncio.wait((everything, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (*syncing, timer, everything):
                waiting.cancel()
        self._synced.set()

    async def _pause(self, seconds: float) -> None:
        """Wait, less when the server serves something else."""
        if self._live is None:
            await self._clock.sleep(seconds)
            return
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        changed = asyncio.ensure_future(self._live.after(self._catalog))
        try:
            await asyncio.wait((timer, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            changed.cancel()
        if changed.done() and not timer.done():
            await self._clock.sleep(CALM_S)


def _may_be_stale(served: ServedKinds, kind: ServedKind) -> bool:
    """Whether the server of `kind` didn't say what it serves, so that its kinds aren't gone."""
    return kind.ref.api_version in served.stale
