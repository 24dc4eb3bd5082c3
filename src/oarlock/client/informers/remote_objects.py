"""`RemoteObjects`: the objects of a kind in this process's memory, kept current over the network.

Where the server can, one watch brings what exists and all changes (WatchList, KEP-3157); elsewhere a list in pages,
then a watch. Objects are kept as bytes until they are first read. After a 410 everything is asked for again, and
observers get the difference.

The first events of a watch without a revision come in the order of keys (`InitialEvents`), so none of their revisions
is a place to go on from. When the connection breaks among them, everything is asked for again.
Source: client-go ``tools/cache/reflector.go``. See also: `informer`, `watching`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Generic, TypeVar

import msgspec

from oarlock.client.informers.observers import Observers, ReadableObject
from oarlock.client.informers.watching import Received, WatchingClient, batches_of, resumed
from oarlock.client.kinds import ResourceRef
from oarlock.client.objects import ListQuery, metadata_of, shown
from oarlock.client.requests import error_of_tree
from oarlock.client.transport import ClientResponse, TransportError
from oarlock.codec import json
from oarlock.meta.errors import Expired, InvalidObject, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import NamespacedName
from oarlock.meta.options_parse import QueryPairs

REMEMBERED = 4096
"""How many objects are remembered as logged; older ones may be logged again."""

LINES = 20
PER_S = 60.0
"""The period of the rate limit, in seconds. The next line that is logged says how many were left out."""


class ObjectLog:
    """The rate-limited log of one part of the server. `now` returns monotonic seconds."""

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._logged: OrderedDict[tuple[str, object], None] = OrderedDict()
        self._since = 0.0
        self._lines = 0
        self._left_out = 0

    def warn(self, name: str, state: object, why: str, error: BaseException | None = None) -> None:
        """Log once that the object `name` can't be used in its `state`, such as a revision.

        `error` adds its traceback.
        """
        key = (name, state)
        if key in self._logged:
            return
        self._logged[key] = None
        if len(self._logged) > REMEMBERED:
            self._logged.popitem(last=False)
        now = self._now()
        if not self._since or now - self._since >= PER_S:
            self._since, self._lines = now, 0
        self._lines += 1
        if self._lines > LINES:
            self._left_out += 1
            return
        more = f" ({self._left_out} others were left out before)" if self._left_out else ""
        self._left_out = 0
        self._log.warning("%s: %s%s", name, why, more, exc_info=error)


INITIAL_EVENTS_END = "k8s.io/initial-events-end"
UNKNOWN_TO_SERVER = (400, 405, 415, 422, 501)
"""What servers answer that don't have WatchList."""


class InitialEvents:
    """The initial events of one watch. Those that were passed on are remembered until all have `ended`.

    They end with a bookmark that says so. Servers that don't send one have sent all when anything else than ``ADDED``
    comes.
    """

    def __init__(self) -> None:
        self.ended = False
        self.version = ""
        """Where to go on from; empty before the end."""
        self._passed: dict[NamespacedName, Received] = {}
        self._missing: set[NamespacedName] = set()

    def begin(self) -> None:
        """They come once more."""
        self._missing = set(self._passed)

    def taken(self, batch: list[Received]) -> list[Received]:
        """What of these events is new to the reader, the deletion of what has gone meanwhile included."""
        new: list[Received] = []
        for at, event in enumerate(batch):
            if event.type != "ADDED":
                new += [self._passed[place]._replace(type="DELETED") for place in sorted(self._missing)]
                new += batch[at:]
                self.version = next((event.version for event in reversed(batch[at:]) if event.version), "")
                self.ended = bool(self.version)
                self._passed, self._missing = {}, set()
                break
            metadata = metadata_of(event.object)
            place = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
            before = self._passed.get(place)
            self._missing.discard(place)
            self._passed[place] = event
            if before is None:
                new.append(event)
            elif before.version != event.version:
                new.append(event._replace(type="MODIFIED"))
        return new


async def watch_list(
    ask: Callable[[QueryPairs], Awaitable[ClientResponse]], with_list: QueryPairs, without: QueryPairs
) -> ClientResponse:
    """A watch that begins with everything, and says where that ends if the server can. Raises StatusError."""
    try:
        return await ask(with_list)
    except StatusError as error:
        if error.code not in UNKNOWN_TO_SERVER:
            raise
    return await ask(without)


T = TypeVar("T")
PAGE_SIZE = 1_000
_AT_ONCE = 250
"""How many objects are taken over before the event loop has its turn."""

log = logging.getLogger("oarlock.client")


class _ObjectHead(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Item(msgspec.Struct):
    metadata: _ObjectHead


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _ItemPage(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _EventLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


_page = msgspec.json.Decoder(_ItemPage).decode
_head = msgspec.json.Decoder(_Item).decode
_event = msgspec.json.Decoder(_EventLine).decode


class RemoteObjects(Generic[T]):
    """An `ObjectSource`. With `namespace` or the selectors of `query`, only those objects."""

    def __init__(
        self, client: WatchingClient, ref: ResourceRef, namespace: str, query: ListQuery, observers: Observers[T]
    ) -> None:
        self.ref = ref
        self._client = client
        self._namespace = namespace
        self._query = replace(query, page_size=PAGE_SIZE)
        self._listeners = observers
        self._objects: dict[NamespacedName, ReadableObject[T]] = {}
        self._namespaces: dict[str, str] = {}
        self._object_log = ObjectLog(log)
        self._has_watch_list = True
        """Until the server says otherwise."""

    def begin_with(self, objects: Iterable[tuple[NamespacedName, ReadableObject[T]]]) -> None:
        """Begin with the objects that observers know, so that they receive the difference."""
        self._objects = dict(objects)

    # Reading

    def get(self, name: str, namespace: str) -> T | None:
        found = self._objects.get((namespace, name))
        return None if found is None else found.read()

    def __iter__(self) -> Iterator[T]:
        for obj in tuple(self._objects.values()):
            found = obj.read()
            if found is not None:
                yield found

    def __len__(self) -> int:
        return len(self._objects)

    def objects(self) -> Iterable[tuple[NamespacedName, ReadableObject[T]]]:
        return tuple(self._objects.items())

    def close(self) -> None:
        """There is nothing to close: who follows is cancelled."""

    # Following

    async def follow(self, synced: Callable[[], None]) -> None:
        """Ask for everything, call `synced`, and follow. Raises Expired, StatusError, TransportError."""
        version = await self._initial_events(synced) if self._has_watch_list else ""
        if not version:
            version = await self._list()
            synced()
        await self._follow(version)

    async def _initial_events(self, synced: Callable[[], None]) -> str:
        """Take over what a WatchList brings and follow it to its end; returns the last revision.

        ``""`` when the server has no WatchList, or the attempt failed or did not end: the caller then lists.
        """
        collection = self.ref.collection(self._namespace)
        try:
            answer = await self._client.open(collection, self._query.watch_list_pairs(), streams=True)
        except StatusError as error:
            if error.code not in UNKNOWN_TO_SERVER:
                raise
            self._has_watch_list = False
            return ""
        missing: set[NamespacedName] | None = set(self._objects)
        version = ""
        try:
            async with aclosing(batches_of(answer, _received)) as batches:
                async for batch in batches:
                    for number, event in enumerate(batch):
                        if missing is None:
                            version = event.version or version
                            self._apply(event)
                        elif _ends_initial_events(event):
                            self._remove(missing)
                            missing, version = None, event.version
                            synced()
                        else:
                            missing.discard(self._apply(event))
                        if not (number + 1) % _AT_ONCE:
                            await asyncio.sleep(0)
        except TransportError:
            if missing is not None:
                raise
        except StatusError as error:
            if error.code == 410:
                raise
        finally:
            await answer.close()
        return version  # none without the end of the initial events

    async def _list(self) -> str:
        """Take over what exists; returns the revision of the list.

        When history is compacted while pages are read, the rest is read in one response.
        """
        missing = set(self._objects)
        token, query = "", self._query
        while True:
            try:
                page = await self._read_page(query, token)
            except Expired:
                if not token:
                    raise
                token, query = "", replace(query, page_size=0)
                missing = set(self._objects)
                continue
            for number, raw in enumerate(page.items or ()):
                missing.discard(self._put(bytes(raw), _head_of(raw)))
                if not (number + 1) % _AT_ONCE:
                    await asyncio.sleep(0)
            token = page.metadata.continue_
            if not token:
                self._remove(missing)
                return page.metadata.resource_version

    async def _read_page(self, query: ListQuery, token: str) -> _ItemPage:
        answer = await self._client.open(self.ref.collection(self._namespace), query.pairs(token))
        try:
            return _page(await answer.read())
        except msgspec.MsgspecError as error:
            raise TransportError(f"the answer isn't a list: {error}", sent=True) from None

    async def _follow(self, version: str) -> None:
        collection, query = self.ref.collection(self._namespace), self._query

        async def begin(resource_version: str) -> ClientResponse:
            return await self._client.open(collection, query.watch_pairs(resource_version), streams=True)

        async with aclosing(resumed(begin, version, self._client.pause, _received)) as batches:
            async for batch in batches:
                for number, event in enumerate(batch):
                    self._apply(event)
                    if not (number + 1) % _AT_ONCE:
                        await asyncio.sleep(0)

    # Changing

    def _apply(self, event: Received) -> NamespacedName:
        if event.type == "BOOKMARK":
            return "", ""
        data, head = event.object
        if event.type == "DELETED":
            key = head.namespace, head.name
            self._remove((key,))
            return key
        return self._put(data, head)

    def _put(self, data: bytes, head: _ObjectHead) -> NamespacedName:
        namespace = self._namespaces.setdefault(head.namespace, head.namespace)
        key = namespace, head.name
        before = self._objects.get(key)
        if before is None or before.version != head.resource_version:
            new: _RemoteObject[T] = _RemoteObject(data, head.resource_version, self)
            self._objects[key] = new
            if self._listeners:
                self._listeners.changed(key, before, new)
        return key

    def _remove(self, keys: Iterable[NamespacedName]) -> None:
        for key in keys:
            before = self._objects.pop(key, None)
            if before is not None:
                self._listeners.changed(key, before, None)

    def decoded(self, data: bytes) -> T | None:
        """The typed object or tree; None, and a line in the log, when it doesn't fit its class."""
        tree: Tree = {"apiVersion": self.ref.api_version, "kind": self.ref.kind, **json.decode(data)}
        try:
            found: T = shown(tree, self.ref)
        except InvalidObject as error:
            metadata: Any = tree["metadata"]
            name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
            why = f"left out of its informer, because it doesn't fit its class: {error.message}"
            self._object_log.warn(f"{self.ref.kind} {name}", metadata.get("resourceVersion"), why)
            return None
        return found


class _RemoteObject(Generic[T]):
    """A `ReadableObject`: bytes until it is read, then typed. `object` is None too when it doesn't fit its class."""

    __slots__ = ("data", "object", "source", "version")

    def __init__(self, data: bytes, version: str, source: RemoteObjects[T]) -> None:
        self.data = data
        self.version = version
        self.source = source
        self.object: T | None = None

    def read(self) -> T | None:
        if self.data:
            data, self.data = self.data, b""
            self.object = self.source.decoded(data)
        return self.object


def _ends_initial_events(event: Received) -> bool:
    annotations = event.object[1].annotations
    return event.type == "BOOKMARK" and annotations is not None and annotations.get(INITIAL_EVENTS_END) == "true"


def _head_of(data: msgspec.Raw) -> _ObjectHead:
    try:
        return _head(data).metadata
    except msgspec.MsgspecError as error:
        raise TransportError(f"this isn't an object: {error}", sent=True) from None


def _received(line: bytes) -> Received:
    """One line of a watch, the object of which stays as it is. Raises StatusError, TransportError."""
    try:
        event = _event(line)
        if event.type == "ERROR":
            status = json.decode(bytes(event.object))
            raise error_of_tree(status if isinstance(status, dict) else {})
    except msgspec.MsgspecError:
        raise TransportError(f"this isn't an event of a watch: {line[:200]!r}", sent=True) from None
    head = _head_of(event.object)
    return Received(event.type, (bytes(event.object), head), head.resource_version)
