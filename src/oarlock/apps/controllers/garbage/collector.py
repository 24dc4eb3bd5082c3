"""`GarbageCollector`: deletes what belonged to objects that are gone, and lets objects go that wait for it.

- An object goes when none of its owners exists: none in its namespace (or the cluster) with that name and that uid.
- *Foreground*: an owner waits, with a finalizer, until what blocks its deletion is gone. *Orphan*: it waits until its
  dependents don't name it any more. An owner of a kind that isn't served may exist, so its dependents stay.
- Every write says which revision it is about; that an owner is absent is asked of the server, once for each owner.

See also: `followed`, which objects there are. Source: Kubernetes' garbage collector.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from oarlock.apps.controllers.garbage.followed import FollowedKinds, KindListener
from oarlock.apps.controllers.served_kinds import ServedKind, ServedKinds
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.observers import ReadableObject
from oarlock.client.informers.partial_objects import OwnerLink, PartialMetadata, PartialObject, partial_object
from oarlock.client.objects import metadata_of
from oarlock.client.transport import TransportError
from oarlock.codec import json
from oarlock.controllers.events import EventRecorder, EventSender
from oarlock.controllers.keys import ObjectKey
from oarlock.controllers.running.leases import LeaderLost
from oarlock.controllers.running.work_queue import WorkQueue
from oarlock.meta.errors import Conflict, NotFound, StatusError
from oarlock.meta.kinds import GroupResource, NamespacedName
from oarlock.server.description import LiveCatalog


class ObjectRef(NamedTuple):
    """Where an object is; the namespace is empty for one of the cluster."""

    resource: GroupResource
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        """The place as a work queue takes it: its name says the resource too."""
        return ObjectKey(self.namespace, f"{self.resource.group}/{self.resource.resource}/{self.name}")

    @classmethod
    def of_key(cls, key: ObjectKey) -> ObjectRef:
        group, resource, name = key.name.split("/", 2)
        return cls(GroupResource(group, resource), key.namespace, name)


class DependencyGraph:
    """The graph of owners and dependents."""

    def __init__(self) -> None:
        self._owners: dict[ObjectRef, tuple[OwnerLink, ...]] = {}
        self._dependents: dict[str, dict[ObjectRef, OwnerLink]] = {}

    def __len__(self) -> int:
        """How many objects have owners."""
        return len(self._owners)

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(tuple(self._owners))

    def owners(self, place: ObjectRef) -> tuple[OwnerLink, ...]:
        """The owners of an object, as it was put."""
        return self._owners.get(place, ())

    def put(self, place: ObjectRef, owners: tuple[OwnerLink, ...]) -> None:
        """Note the owners that an object has now."""
        self.remove(place)
        if owners:
            self._owners[place] = tuple(self._add(place, link) for link in owners)

    def _add(self, place: ObjectRef, link: OwnerLink) -> OwnerLink:
        siblings = self._dependents.setdefault(link.uid, {})
        # Most references to an owner are alike, and share one value.
        known = next(iter(siblings.values()), link)
        siblings[place] = link = known if known == link else link
        return link

    def remove(self, place: ObjectRef) -> tuple[OwnerLink, ...]:
        """Forget an object; returns who its owners were."""
        owners = self._owners.pop(place, ())
        for link in owners:
            siblings = self._dependents.get(link.uid)
            if siblings is not None:
                siblings.pop(place, None)
                if not siblings:
                    del self._dependents[link.uid]
        return owners

    def dependents(self, uid: str) -> tuple[ObjectRef, ...]:
        """The objects that have an owner with this uid."""
        return tuple(self._dependents.get(uid, ()))

    def has_dependents(self, uid: str) -> bool:
        return uid in self._dependents

    def blocks(self, uid: str) -> bool:
        """Whether an object is left that an owner has to wait for that is deleted in the foreground."""
        return any(link.block_owner_deletion for link in self._dependents.get(uid, {}).values())


_MERGE = {"content-type": "application/merge-patch+json"}


class Acting:
    """Raises Conflict when an object has changed, StatusError and TransportError; what is gone is no error."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def read(self, kind: ServedKind, namespace: str, name: str) -> PartialMetadata | None:
        """An object as it is on the server now."""
        try:
            tree = await self._client.request("GET", kind.ref.object(name, namespace))
        except NotFound:
            return None
        metadata = metadata_of(tree) if isinstance(tree, dict) else {}
        found: PartialObject | None = partial_object(json.encode({"metadata": metadata}))
        return None if found is None else found.metadata

    async def delete(self, kind: ServedKind, metadata: PartialMetadata, policy: str) -> None:
        """Delete an object; `policy` is what becomes of its dependents."""
        preconditions = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        body = {"propagationPolicy": policy, "preconditions": preconditions}
        try:
            await self._client.request("DELETE", kind.ref.object(metadata.name, metadata.namespace), body)
        except NotFound:
            pass  # somebody was faster

    async def disown(self, kind: ServedKind, metadata: PartialMetadata, uids: set[str]) -> None:
        """Take references to these owners off an object."""
        links = [link.tree() for link in metadata.owner_references or () if link.uid not in uids]
        await self._patch(kind, metadata, {"ownerReferences": links or None})

    async def unblock(self, kind: ServedKind, metadata: PartialMetadata) -> None:
        """Let no owner wait for an object."""
        links = [{**link.tree(), "blockOwnerDeletion": False} for link in metadata.owner_references or ()]
        await self._patch(kind, metadata, {"ownerReferences": links})

    async def remove_finalizer(self, kind: ServedKind, metadata: PartialMetadata, finalizer: str) -> None:
        left: Iterable[str] = (name for name in metadata.finalizers or () if name != finalizer)
        await self._patch(kind, metadata, {"finalizers": [*left] or None})

    async def _patch(self, kind: ServedKind, metadata: PartialMetadata, change: dict[str, Any]) -> None:
        seen = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        path = kind.ref.object(metadata.name, metadata.namespace)
        try:
            await self._client.request("PATCH", path, {"metadata": {**seen, **change}}, headers=_MERGE)
        except NotFound:
            pass  # it is gone


log = logging.getLogger("oarlock.controllers")
NAME = "garbage-collector-controller"
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
WORKERS = 32
AT_ONCE = 500
"""How many dependents are put into the queue before others have a turn."""

MAX_ABSENT = 10_000
"""How many owners are remembered not to exist."""

NAMESPACES = GroupResource("", "namespaces")


class _Owner(Enum):
    """What is known of an owner that an object names."""

    THERE = "there"
    ABSENT = "absent"
    WAITING = "deleted in the foreground"
    UNKNOWN = "unknown"


class GarbageCollector:
    """Runs as one of a server's controllers; each `run` builds a new graph. `live` is what that server serves."""

    name = NAME

    def __init__(self, live: LiveCatalog | None = None) -> None:
        self._live = live

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Collect until cancelled."""
        # That a kind is deprecated is for those who choose it, and this follows all.
        await _Collecting(client.using(on_warning=_ignore_warning), clock, self._live).run()


class _Collecting:
    """One run."""

    def __init__(self, client: Client, clock: TimerClock, live: LiveCatalog | None) -> None:
        listener = KindListener(self._changed, self._appeared, self._disappeared)
        self._graph = DependencyGraph()
        self._kinds = FollowedKinds(client, clock, listener, live)
        self._acting = Acting(client)
        self._queue = WorkQueue(clock, on_room=self._missed_some)
        self._absent: OrderedDict[tuple[str, OwnerLink], None] = OrderedDict()
        self._waiting: dict[str, ObjectRef] = {}
        """Owners that are being deleted in the foreground, by uid."""
        self._unresolved: dict[tuple[str, str], set[ObjectRef]] = {}
        """Objects that have an owner of a kind that isn't served."""
        self._gone: deque[Iterable[ObjectRef]] = deque()
        self._something_gone = asyncio.Event()
        self._events = EventSender(client, clock)
        self._recorder = EventRecorder(self._events, NAME)

    async def run(self) -> None:
        self._events.start()
        tasks = [asyncio.create_task(self._kinds.run(), name="kinds of the garbage collector")]
        try:
            await self._kinds.synced()
            tasks.append(asyncio.create_task(self._enqueue_gone(), name="dependents of what is gone"))
            tasks += [asyncio.create_task(self._work(), name=f"garbage collector {n}") for n in range(WORKERS)]
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            ended.pop().result()
        finally:
            self._queue.shut_down(drain=False)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._events.stop()

    # What happens

    def _changed(
        self,
        kind: ServedKind,
        key: NamespacedName,
        old: ReadableObject[PartialObject] | None,
        new: ReadableObject[PartialObject] | None,
    ) -> None:
        place = ObjectRef(kind.resource, *key)
        found = None if new is None else new.read()
        if found is not None:
            self._put(place, found.metadata)
        elif new is None:
            before = None if old is None else old.read()
            self._remove(place, "" if before is None else before.metadata.uid)

    def _put(self, place: ObjectRef, metadata: PartialMetadata) -> None:
        before, owners = self._graph.owners(place), metadata.owner_references or ()
        if owners != before:
            self._graph.put(place, owners)
            self._look_at_waiting(before)
            if any(self._known(link, place) is not _Owner.THERE for link in owners):
                self._queue.add(place.key)
        if metadata.deletion_timestamp is not None:
            finalizers = metadata.finalizers or ()
            if FOREGROUND in finalizers or ORPHAN in finalizers:
                self._queue.add(place.key)
            self._look_at_waiting(owners)

    def _remove(self, place: ObjectRef, uid: str) -> None:
        self._look_at_waiting(self._graph.remove(place))
        self._waiting.pop(uid, None)
        if self._graph.has_dependents(uid):
            self._later(self._graph.dependents(uid))

    def _look_at_waiting(self, owners: Iterable[OwnerLink]) -> None:
        """Something has changed of what these owners may wait for."""
        for link in owners:
            waiting = self._waiting.get(link.uid)
            if waiting is not None:
                self._queue.add(waiting.key)

    def _appeared(self, served: ServedKinds) -> None:
        for kind in tuple(self._unresolved):
            if kind in served.by_kind:
                self._later(self._unresolved.pop(kind))

    def _disappeared(self, kind: ServedKind) -> None:
        for place in self._graph:
            if place.resource == kind.resource:
                self._graph.remove(place)

    def _missed_some(self) -> None:
        """There is room in the queue again, which has refused something."""
        self._later(self._graph)

    def _later(self, places: Iterable[ObjectRef]) -> None:
        self._gone.append(places)
        self._something_gone.set()

    async def _enqueue_gone(self) -> None:
        while True:
            await self._something_gone.wait()
            self._something_gone.clear()
            while self._gone:
                for number, place in enumerate(self._gone.popleft()):
                    self._queue.add(place.key)
                    if not (number + 1) % AT_ONCE:
                        await asyncio.sleep(0)

    # What is done

    async def _work(self) -> None:
        while (key := await self._queue.get()) is not None:
            try:
                await self._collect(ObjectRef.of_key(key))
                self._queue.forget(key)
            except Conflict:
                self._queue.retry(key)  # it has changed meanwhile
            except (StatusError, TransportError, LeaderLost) as error:
                self._log_failure(key, error)
            except Exception:
                log.exception("garbage collection of %s failed, again in %.3g s", key, self._queue.retry(key))
            finally:
                self._queue.done(key)
            await asyncio.sleep(0)

    def _log_failure(self, key: ObjectKey, error: Exception) -> None:
        text = error.message if isinstance(error, StatusError) else str(error)
        log.info("garbage collection of %s failed, again in %.3g s: %s", key, self._queue.retry(key), text)

    async def _collect(self, place: ObjectRef) -> None:
        """Look at one object, and do what is to be done with it."""
        kind = self._kinds.served.by_resource.get(place.resource)
        found = None if kind is None else self._kinds.get(kind, place.namespace, place.name)
        if kind is None or found is None:
            return
        metadata = found.metadata
        if metadata.deletion_timestamp is not None:
            await self._remove_finalizer_when_done(kind, place, metadata)
            return
        states: dict[_Owner, list[OwnerLink]] = {state: [] for state in _Owner}
        for link in metadata.owner_references or ():
            states[await self._state(link, place, found)].append(link)
        superfluous = [*states[_Owner.ABSENT], *states[_Owner.WAITING]]
        if states[_Owner.UNKNOWN] or not superfluous:
            return
        if states[_Owner.THERE]:
            await self._acting.disown(kind, metadata, {link.uid for link in superfluous})
        elif states[_Owner.WAITING] and self._graph.has_dependents(metadata.uid):
            await self._unblock_circle(kind, metadata)
            await self._acting.delete(kind, metadata, "Foreground")
        else:
            await self._acting.delete(kind, metadata, _policy(metadata))

    async def _unblock_circle(self, kind: ServedKind, metadata: PartialMetadata) -> None:
        """Where something of it is being deleted in the foreground itself, both could wait for one another."""
        for place in self._graph.dependents(metadata.uid):
            below = self._kinds.served.by_resource.get(place.resource)
            found = None if below is None else self._kinds.get(below, place.namespace, place.name)
            if found is not None and _waits(found.metadata):
                await self._acting.unblock(kind, metadata)
                return

    async def _remove_finalizer_when_done(self, kind: ServedKind, place: ObjectRef, metadata: PartialMetadata) -> None:
        """Take the finalizer off an object that is being deleted, if nothing is to be done for it any more."""
        finalizers = metadata.finalizers or ()
        if ORPHAN in finalizers:
            await self._orphan(metadata.uid)
            await self._acting.remove_finalizer(kind, metadata, ORPHAN)
        elif FOREGROUND in finalizers:
            if metadata.uid not in self._waiting:
                self._waiting[metadata.uid] = place
                self._later(self._graph.dependents(metadata.uid))
            if not self._graph.blocks(metadata.uid):
                await self._acting.remove_finalizer(kind, metadata, FOREGROUND)

    async def _orphan(self, uid: str) -> None:
        """Let no object name the owner `uid` any more."""
        limit = asyncio.Semaphore(WORKERS)

        async def disown(kind: ServedKind, metadata: PartialMetadata) -> None:
            async with limit:
                await self._acting.disown(kind, metadata, {uid})

        async with asyncio.TaskGroup() as group:
            for number, place in enumerate(self._graph.dependents(uid)):
                kind = self._kinds.served.by_resource.get(place.resource)
                found = None if kind is None else self._kinds.get(kind, place.namespace, place.name)
                if kind is not None and found is not None:
                    group.create_task(disown(kind, found.metadata))
                if not (number + 1) % WORKERS:
                    await asyncio.sleep(0)

    # Owners

    def _known(self, link: OwnerLink, place: ObjectRef) -> _Owner:
        """What is known of an owner without asking: it may be newer than what is known here, or absent elsewhere."""
        kind = self._kinds.served.by_kind.get((link.api_version, link.kind))
        if kind is None:
            return _Owner.UNKNOWN
        found = self._kinds.get(kind, place.namespace if kind.ref.namespaced else "", link.name)
        if found is None or found.metadata.uid != link.uid:
            return _Owner.ABSENT
        return _Owner.WAITING if _waits(found.metadata) else _Owner.THERE

    async def _state(self, link: OwnerLink, place: ObjectRef, dependent: PartialObject) -> _Owner:
        """What an owner is, for sure. Raises StatusError, TransportError when that can't be told."""
        kind = self._kinds.served.by_kind.get((link.api_version, link.kind))
        if kind is None:
            self._unresolved.setdefault((link.api_version, link.kind), set()).add(place)
            return _Owner.UNKNOWN
        if kind.ref.namespaced and not place.namespace:
            self._record_event(place, dependent, f"ownerRef {_shown(link, '')} must not be namespaced")
            return _Owner.UNKNOWN
        state = self._known(link, place)
        if state is not _Owner.ABSENT:
            return state
        namespace = place.namespace if kind.ref.namespaced else ""
        if (namespace, link) in self._absent:
            return state
        live = await self._acting.read(kind, namespace, link.name)
        if live is not None and live.uid == link.uid:
            return _Owner.WAITING if _waits(live) else _Owner.THERE
        self._absent[namespace, link] = None
        while len(self._absent) > MAX_ABSENT:
            self._absent.popitem(last=False)
        if kind.ref.namespaced and self._is_elsewhere(kind, link):
            shown = _shown(link, namespace)
            self._record_event(place, dependent, f'ownerRef {shown} does not exist in namespace "{namespace}"')
        return state

    def _is_elsewhere(self, kind: ServedKind, link: OwnerLink) -> bool:
        """Whether the owner that isn't in the dependent's namespace is in another."""
        places = (self._kinds.get(kind, namespace, link.name) for namespace in self._kinds.names_of(NAMESPACES))
        return any(found is not None and found.metadata.uid == link.uid for found in places)

    def _record_event(self, place: ObjectRef, dependent: PartialObject, text: str) -> None:
        kind = self._kinds.served.by_resource[place.resource]
        metadata = {"namespace": place.namespace, "name": place.name, "uid": dependent.metadata.uid}
        about = {"apiVersion": kind.ref.api_version, "kind": kind.ref.kind, "metadata": metadata}
        self._recorder.warning(about, "OwnerRefInvalidNamespace", text, action="CollectGarbage")


def _ignore_warning(text: str) -> None:
    """Ignore a warning: nothing here reads it."""


def _waits(metadata: PartialMetadata) -> bool:
    """Whether an object is being deleted in the foreground."""
    return metadata.deletion_timestamp is not None and FOREGROUND in (metadata.finalizers or ())


def _policy(metadata: PartialMetadata) -> str:
    """What becomes of the dependents of an object that is collected itself."""
    finalizers = metadata.finalizers or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _shown(link: OwnerLink, namespace: str) -> str:
    return f"[{link.api_version}/{link.kind}, namespace: {namespace}, name: {link.name}, uid: {link.uid}]"
