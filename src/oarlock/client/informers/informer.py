"""`Informer`: the objects of a kind in memory, kept current, with handlers and indices.

    boats = client.informer(Boat, namespace="default")
    boats.add_handler(lambda old, new: print(old, new))
    async with boats:
        await boats.synced()
        boat = boats.get("a", "default")

Over HTTP it lists and watches, and keeps the objects itself (`remote_objects`). In the process of the server it reads
the server's own cache: nothing is copied, and it is as new as the last answer. Source: client-go ``tools/cache``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from oarlock.client.clock import Flag
from oarlock.client.informers.observers import ObjectChange, Observer, Observers, ReadableObject
from oarlock.client.informers.remote_objects import RemoteObjects
from oarlock.client.informers.watching import WatchingClient
from oarlock.client.kinds import ResourceRef
from oarlock.client.objects import ListQuery
from oarlock.client.transport import TransportError
from oarlock.meta.errors import Expired, StatusError
from oarlock.meta.kinds import NamespacedName

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
log = logging.getLogger("oarlock.client")

ChangeHandler = Callable[[T | None, T | None], object]
"""Called with the object before and after: None before it was created, and after it was deleted."""

_COMPARED_AT_ONCE = 256


class NotRunning(RuntimeError):
    """The informer has no data, because nothing has started it."""


class ObjectSource(Protocol[T_co]):
    """Where an informer's objects are: its own memory, or the cache of the server in this process.

    It tells the informer's `Observers` of changes while it is followed.
    """

    def get(self, name: str, namespace: str) -> T_co | None:
        """The object; None if it doesn't exist, isn't selected or doesn't fit its class."""
        ...

    def __iter__(self) -> Iterator[T_co]: ...

    def __len__(self) -> int: ...

    def objects(self) -> Iterable[tuple[NamespacedName, ReadableObject[T_co]]]:
        """All objects as they are now, not decoded. May be iterated over more than once."""
        ...

    async def follow(self, synced: Callable[[], None]) -> None:
        """Stay current; call `synced` when everything is here. Returns or raises when it can't go on."""
        ...

    def close(self) -> None:
        """Follow no longer. Safe to call twice."""
        ...


class CachedSource(ObjectSource[T_co], Protocol[T_co]):
    """An `ObjectSource` that reads the cache of the server in this process."""

    @property
    def ended(self) -> bool:
        """Whether it doesn't change any more: it was closed, or its resource isn't served any more as it was."""
        ...


class CacheTransport(Protocol):
    """What a `Transport` may do besides: hand out the cache of a server in this process."""

    def cached_objects(
        self, ref: ResourceRef, namespace: str, query: ListQuery, observers: Observers[Any]
    ) -> CachedSource[Any] | None:
        """The objects of a list; None when they aren't in the cache, or can't be read without waiting."""
        ...

    def cached_bytes(
        self, ref: ResourceRef, observers: Observers[Any], read: Callable[[bytes], Any]
    ) -> ObjectSource[Any] | None:
        """All objects of a kind as `read` makes them of their stored bytes; None when they aren't in the cache."""
        ...


class Informer(Generic[T]):
    """The objects of `kind` in memory, kept current by a watch. Don't change them: all readers share them.

    - `kind` is a declared class, or ``group/version/Kind`` for trees. `namespace` and the selectors select objects.
    - `client.informer(…)` makes an informer that runs while its context lasts. An informer that is made without a
      client is listed in ``APIServer(informers=[…])``, and has data once that server runs.
    - An object is decoded when it is first read. An object that doesn't fit its class is left out, and logged.
    """

    def __init__(
        self,
        kind: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        include_uninitialized: bool = False,
        client: WatchingClient | None = None,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.query = ListQuery(label_selector, field_selector, include_uninitialized=include_uninitialized)
        self.observers: Observers[T] = Observers()
        """Those that its source tells of changes."""
        self.ref: ResourceRef | None = None
        """The resource that has the kind now, once it is followed through a client."""
        self._client = client
        self._indices: dict[str, _Index[T]] = {}
        self._source: ObjectSource[T] | None = None
        self._synced = Flag()
        self._task: asyncio.Task[None] | None = None
        self._started = False
        self._trouble = "not all objects are here yet"

    async def __aenter__(self) -> Self:
        if self._client is None:
            raise NotRunning(f"{self._name} isn't connected to a server: make it with client.informer(…)")
        self._task = asyncio.create_task(self.run(), name=self._name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Reading

    async def synced(self) -> None:
        """Wait until all objects of the initial list are in memory and were passed to the handlers.

        Raises the error that ended the informer.
        """
        await self._unless_ended(self._synced.wait())
        await self._unless_ended(self.observers.delivered())

    def get(self, name: str, namespace: str = "") -> T | None:
        """The object; None if it doesn't exist or doesn't fit its class."""
        source = self._source
        if source is None:
            self._check_started()
            return None
        return source.get(name, namespace)

    def __iter__(self) -> Iterator[T]:
        if self._source is None:
            self._check_started()
            return iter(())
        return iter(self._source)

    def __len__(self) -> int:
        """The number of objects, including those that don't fit their class."""
        if self._source is None:
            self._check_started()
            return 0
        return len(self._source)

    def add_index(self, name: str, keys: Callable[[T], Iterable[str]]) -> None:
        """Keep an index. `keys` returns the values under which an object is found by `by_index`."""
        index = _Index(keys, self._name)
        self._indices[name] = index
        self._observe(index)

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects under `value` in an index. Raises KeyError for an index that wasn't added."""
        index = self._indices[name]
        index.catch_up()
        objects = (self.get(object_name, namespace) for namespace, object_name in index.of(value))
        return [obj for obj in objects if obj is not None]

    def add_handler(self, handler: ChangeHandler[T]) -> None:
        """Call `handler` with the old and the new object of each change.

        Existing objects are passed first, with None as the old one. The handler runs in the event loop, soon after the
        change, and may not wait. If an object changes several times before that, the handler is called once. Its
        exceptions are logged.
        """
        name = self._name

        def tell(key: NamespacedName, old: ReadableObject[T] | None, new: ReadableObject[T] | None) -> None:
            try:
                before = None if old is None else old.read()
                after = None if new is None else new.read()
                if before is not None or after is not None:
                    handler(before, after)
            except Exception:
                log.exception("a handler of the %s failed", name)

        self._observe(Observer(tell))

    def _observe(self, observer: Observer[T]) -> None:
        source = self._source
        if source is not None:
            observer.replay((key, None, obj) for key, obj in source.objects())
        self.observers.add(observer)

    # Following

    def follow_through(self, client: WatchingClient) -> None:
        """Use `client` from the next `run` on. For an informer that was made without a client."""
        self._client = client

    @property
    def is_synced(self) -> bool:
        """Whether all objects of the initial list are in memory."""
        return self._synced.is_set()

    @property
    def trouble(self) -> str:
        """Why it isn't current, as far as it knows; empty while it follows its source."""
        return self._trouble

    @property
    def attached(self) -> bool:
        """Whether it has a source of objects."""
        return self._source is not None

    def attach(self, source: ObjectSource[T]) -> None:
        """Read from `source`, a complete one, from now on. Handlers get the differences to the source before."""
        before, self._source = self._source, source
        if before is not None:
            before.close()
        self._trouble = ""
        if self.observers.all and before is not source:
            old, new = () if before is None else before.objects(), source.objects()
            self.observers.replay(lambda: differences(old, new))
        self._synced.set()

    async def run(self) -> None:
        """Run until cancelled. Raises StatusError if the server refuses the first list, for example with 403."""
        assert self._client is not None
        self._started = True
        remote: RemoteObjects[T] | None = None
        failures = 0

        def synced() -> None:
            nonlocal failures
            failures = 0
            self._trouble = ""
            self._synced.set()

        try:
            while True:
                try:
                    ref = self.ref = await self._client.ref(self.kind)
                    cached = await self._cached(ref)
                    if cached is not None:
                        remote = None
                        self.attach(cached)
                        await cached.follow(synced)
                    else:
                        if remote is None or remote.ref != ref:
                            remote = self._remote(ref)
                        await remote.follow(synced)
                except Expired:
                    failures += 1
                    log.info("%s: history is gone, listing again", self._name)
                except (TransportError, StatusError) as error:
                    self._trouble = f"{self._name}: {error}"
                    passing = isinstance(error, TransportError) or error.code in (429, 500, 503, 504)
                    if not passing and not self._synced.is_set():
                        raise
                    failures += 1
                    log.warning("%s: %s", self._name, error)
                await self._client.pause(failures)
        finally:
            if self._source is not None:
                self._source.close()

    def _remote(self, ref: ResourceRef) -> RemoteObjects[T]:
        assert self._client is not None
        remote = self._remote_objects(ref)
        before, self._source = self._source, remote
        if before is not None:
            before.close()
            remote.begin_with(before.objects())
        return remote

    def _remote_objects(self, ref: ResourceRef) -> RemoteObjects[T]:
        assert self._client is not None
        return RemoteObjects(self._client, ref, self.namespace, self.query, self.observers)

    async def _cached(self, ref: ResourceRef) -> ObjectSource[T] | None:
        """The server's own cache, if it is in this process. Raises StatusError if the user may not list it."""
        assert self._client is not None
        transport: Any = self._client.transport
        if not hasattr(transport, "cached_objects"):
            return None
        cache: CacheTransport = transport
        query = replace(self.query, page_size=1)
        answer = await self._client.open(ref.collection(self.namespace), query.pairs(""))
        await answer.read()
        return cache.cached_objects(ref, self.namespace, self.query, self.observers)

    async def _unless_ended(self, waiting: Any) -> None:
        """Wait; raises what ended the informer, if that is first."""
        future = asyncio.ensure_future(waiting)
        tasks = {future} if self._task is None else {future, self._task}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            future.cancel()
        if self._task is not None and self._task.done():
            if self._task.cancelled():
                raise NotRunning(f"the {self._name} has stopped")
            await self._task

    @property
    def _name(self) -> str:
        return f"informer of {getattr(self.kind, '__name__', self.kind)}"

    def _check_started(self) -> None:
        """Raises NotRunning unless it has been started."""
        if not (self._started or self._task):
            how = "list it in APIServer(informers=[…]), or make it with client.informer(…) and enter it with async with"
            raise NotRunning(f"the {self._name} was read before it was started: {how}")


def differences(
    old: Iterable[tuple[NamespacedName, ReadableObject[T]]], new: Iterable[tuple[NamespacedName, ReadableObject[T]]]
) -> Iterator[ObjectChange[T] | None]:
    """What has changed between two states. None now and then, so that comparing may be paused."""
    before: dict[NamespacedName, ReadableObject[T]] = {}
    for number, (key, obj) in enumerate(old):
        before[key] = obj
        if not number % _COMPARED_AT_ONCE:
            yield None
    for key, obj in new:
        known = before.pop(key, None)
        yield (key, known, obj) if known is None or known.version != obj.version else None
    for key, known in before.items():
        yield key, known, None


class _Index(Observer[T]):
    """Values → the keys of objects."""

    def __init__(self, keys: Callable[[T], Iterable[str]], name: str) -> None:
        super().__init__(self._replace)
        self._keys = keys
        self._name = name
        self._objects: dict[str, dict[NamespacedName, None]] = {}
        self._values: dict[NamespacedName, tuple[str, ...]] = {}

    def of(self, value: str) -> Iterable[NamespacedName]:
        return tuple(self._objects.get(value, ()))

    def _replace(self, key: NamespacedName, old: ReadableObject[T] | None, new: ReadableObject[T] | None) -> None:
        for value in self._values.pop(key, ()):
            keys = self._objects[value]
            keys.pop(key, None)
            if not keys:
                del self._objects[value]
        values = () if new is None else self._values_of(new)
        if values:
            self._values[key] = values
            for value in values:
                self._objects.setdefault(value, {})[key] = None

    def _values_of(self, new: ReadableObject[T]) -> tuple[str, ...]:
        try:
            found = new.read()
            return () if found is None else tuple(self._keys(found))
        except Exception:
            log.exception("an index of the %s failed", self._name)
            return ()
