"""`CachedObjects`: what an informer in the server's own process reads: the watch cache itself, typed.

Nothing is copied, and it is never behind the cache. An object is converted and decoded once for each revision, when it
is first read. Must not know: who reads it. See also: ``client.informers.informer``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from oarlock.client.informers.informer import NotRunning, differences
from oarlock.client.informers.observers import Observers
from oarlock.client.informers.remote_objects import ObjectLog
from oarlock.client.objects import ListQuery
from oarlock.meta.errors import StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import NamespacedName
from oarlock.registry.hooks.object_hooks import reasons
from oarlock.registry.read.selection import EVERYTHING, SelectedKind, Selection, compile_selection, initialized_only
from oarlock.registry.stored.form import object_key
from oarlock.registry.stored.resource import StoredResource
from oarlock.schema.types.views import ViewError
from oarlock.storage.backend import StorageError
from oarlock.storage.cache.entry import CacheEvent, Entry, Subscription
from oarlock.storage.cache.state import Snapshot

T = TypeVar("T")
log = logging.getLogger("oarlock.registry")

REPLACED = 256
"""How many objects that have been replaced stay readable for observers that are notified after others."""
RETRY_S = 0.2
"""The pause before a cache that is loaded again is read anew, in seconds."""


class _Views(Generic[T]):
    """The objects of a resource that have been read, each with the entry that it was made of.

    Those that are plain trees are the same for all readers of a version, so that each revision is decoded once.
    """

    __slots__ = ("__weakref__", "_before", "_now", "some")

    def __init__(self) -> None:
        self.some = False
        """Whether any object has been read."""
        self._now: dict[str, tuple[Entry, T | None]] = {}
        self._before: dict[str, tuple[Entry, T | None]] = {}

    def get(self, entry: Entry) -> tuple[Entry, T | None] | None:
        view = self._now.get(entry.key)
        return view if view is not None and view[0] is entry else None

    def put(self, entry: Entry, made: T | None) -> None:
        self._now[entry.key] = entry, made
        self.some = True

    def replaced(self, entry: Entry, previous: Entry | None) -> tuple[Entry, T | None] | None:
        """The view of what `entry` has replaced, if there is one. The last few are kept for the next reader."""
        view = self._now.get(entry.key)
        if view is not None and view[0] is not entry:
            del self._now[entry.key]
            if len(self._before) >= REPLACED:
                self._before.clear()
            self._before[entry.key] = view
        else:
            view = self._before.get(entry.key)
        return view if view is not None and view[0] is previous else None

    def clear(self) -> None:
        self._now.clear()
        self._before.clear()


def _shared_views(resource: StoredResource, version: str) -> _Views[Any]:
    views = resource.tree_views.get(version)
    if views is None:
        views = resource.tree_views[version] = _Views()
    return views


def selection_of(resource: StoredResource, version: str, query: ListQuery) -> Selection:
    """The compiled selectors of an informer. Raises BadRequest."""
    definition, selectable = resource.definition, resource.selectable[version]
    kind = SelectedKind(definition.typed, definition.namespaced)
    chosen = compile_selection(query.label_selector, query.field_selector, selectable, version, kind)
    hides = resource.definition.initializers and not query.include_uninitialized
    return initialized_only(chosen) if hides else chosen


class CachedObjects(Generic[T]):
    """An ``ObjectSource``: the objects of `resource` in `version`, as `show` makes them of trees; None for the trees.

    With `namespace` or a `selection`, only those. Follows the cache from the start, of which `observers` are notified.
    When the cache has been loaded again after a gap, they get the difference.
    """

    def __init__(
        self,
        resource: StoredResource,
        version: str,
        show: Callable[[Tree], T] | None,
        observers: Observers[T],
        namespace: str = "",
        selection: Selection = EVERYTHING,
    ) -> None:
        self._resource = resource
        self._version = version
        self._show = show
        self._listeners = observers
        self._namespace = namespace
        self._selection = selection
        self._everything = selection.everything and not namespace
        self._prefix = resource.form.prefix
        self._views: _Views[T] = _Views() if show is not None else _shared_views(resource, version)
        self._object_log = ObjectLog(log)
        self._ended = asyncio.Event()
        self._last: Snapshot | None = None
        self._subscription: Subscription | None = None
        self._resuming: asyncio.Task[None] | None = None
        self._begin()

    # Reading

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def get(self, name: str, namespace: str) -> T | None:
        entry = self._resource.cache.get(object_key(self._prefix, namespace, name))
        if entry is None or not self._includes(entry):
            return None
        view = self._views.get(entry)
        return view[1] if view is not None else self._read(entry)

    def __iter__(self) -> Iterator[T]:
        for entry in self.entries(self._resource.cache.snapshot()):
            found = self.read(entry)
            if found is not None:
                yield found

    def __len__(self) -> int:
        cache = self._resource.cache
        if self._everything:
            return len(cache)
        if self._selection.everything:
            return cache.snapshot().count(*self._resource.range(self._namespace))
        return sum(1 for _ in self.entries(cache.snapshot()))

    def objects(self) -> _State[T]:
        """All objects of the moment when it is called, or of the end, once it has ended."""
        return _State(self, self._last or self._resource.cache.snapshot())

    def entries(self, snapshot: Snapshot) -> Iterator[Entry]:
        """What is selected of a snapshot."""
        for chunk in snapshot.range(*self._resource.range(self._namespace)):
            yield from self._selection.pick(chunk)

    def _includes(self, entry: Entry) -> bool:
        if self._everything:
            return True
        return (not self._namespace or entry.namespace == self._namespace) and self._selection.matches(entry)

    def read(self, entry: Entry) -> T | None:
        """The typed object; None, and a line in the log, when it doesn't fit its class."""
        view = self._views.get(entry)
        return view[1] if view is not None else self._read(entry)

    def _read(self, entry: Entry) -> T | None:
        made = None if entry.broken else self._decoded(entry)
        if self._resource.cache.get(entry.key) is entry:
            self._views.put(entry, made)
        return made

    def _decoded(self, entry: Entry) -> T | None:
        try:
            tree = self._resource.tree_now(entry, self._version)
            if tree is None:
                raise NotRunning(f"the conversion of {self._kind} has to wait, which an informer can't")
            shown: Any = tree if self._show is None else self._show(tree)
            return shown  # type: ignore[no-any-return]
        except ViewError as error:
            why = f"because the stored object doesn't fit its class: {reasons(error)}"
        except StatusError as error:  # its traceback has been logged by `Conversions`
            why = error.message
        name = "/".join(filter(None, (entry.namespace, entry.name)))
        self._object_log.warn(f"{self._kind} {name}", entry.rev, f"left out of its informer: {why}")
        return None

    @property
    def _kind(self) -> str:
        return self._resource.definition.names.kind

    # Following

    async def follow(self, synced: Callable[[], None]) -> None:
        """Wait until the resource is served no longer, or another takes its place."""
        synced()
        await self._ended.wait()

    def close(self) -> None:
        if self._last is None:
            self._last = self._resource.cache.snapshot()
        if self._subscription is not None:
            self._subscription.close()
        if self._resuming is not None:
            self._resuming.cancel()
        self._ended.set()

    def _begin(self) -> None:
        cache = self._resource.cache
        try:
            self._subscription = cache.subscribe(cache.rev, self._deliver, self._closed)
        except StorageError:  # it is being loaded again at this moment
            self._closed_by_gap(cache.snapshot())

    def _closed(self, error: Exception | None) -> None:
        if error is None:
            self.close()
        else:
            self._closed_by_gap(self._resource.cache.snapshot())

    def _closed_by_gap(self, before: Snapshot) -> None:
        self._subscription = None
        self._resuming = asyncio.ensure_future(self._resume(before))

    async def _resume(self, before: Snapshot) -> None:
        """Go on when the cache has been loaded again; observers get the difference from `before`."""
        cache, watch_cache = self._resource.cache, self._resource.watch_cache
        while not cache.ready:
            try:
                waiting = watch_cache.fresh()
                if waiting is not None:
                    await waiting
            except StorageError:
                log.info("the watch cache is loaded again: informers go on afterwards")
            if not cache.ready:
                await asyncio.sleep(RETRY_S)
        self._views.clear()
        old: _State[T] = _State(self, before)
        new: _State[T] = _State(self, cache.snapshot())
        self._listeners.replay(lambda: differences(old, new))
        self._begin()

    def _deliver(self, events: Sequence[CacheEvent]) -> None:
        views, observers = self._views, self._listeners
        for event in events:
            entry = event.entry
            view = views.replaced(entry, event.previous) if views.some else None
            if observers.all:
                previous = event.previous
                old = None if previous is None or not self._includes(previous) else _CachedObject(previous, self, view)
                new = None if event.type == "DELETED" or not self._includes(entry) else _CachedObject(entry, self)
                if old is not None or new is not None:
                    observers.changed((entry.namespace, entry.name), old, new)


class CachedBytes(CachedObjects[T]):
    """All objects of `resource`, as `read` makes them of their stored bytes each time: nothing is kept or converted."""

    def __init__(self, resource: StoredResource, observers: Observers[T], read: Callable[[bytes], T | None]) -> None:
        super().__init__(resource, resource.definition.stored_as, _no_view, observers)
        self._read_bytes = read

    def _read(self, entry: Entry) -> T | None:
        return None if entry.broken else self._read_bytes(b"{" + entry.body)


def _no_view(tree: Tree) -> Any:
    raise AssertionError("objects are read from bytes")


class _State(Generic[T]):
    """The objects of a `CachedObjects` at one moment."""

    __slots__ = ("_snapshot", "_source")

    def __init__(self, source: CachedObjects[T], snapshot: Snapshot) -> None:
        self._source = source
        self._snapshot = snapshot

    def __iter__(self) -> Iterator[tuple[NamespacedName, _CachedObject[T]]]:
        source = self._source
        for entry in source.entries(self._snapshot):
            yield (entry.namespace, entry.name), _CachedObject(entry, source)


class _CachedObject(Struct, Generic[T], eq=False):
    """A ``ReadableObject``: an entry of the cache, decoded when it is first read.

    `_view` is that of an earlier read.
    """

    _entry: Entry
    _source: CachedObjects[T]
    _view: tuple[Entry, T | None] | None = None

    @property
    def version(self) -> str:
        return str(self._entry.rev)

    def read(self) -> T | None:
        if self._view is None or self._view[0] is not self._entry:
            self._view = (self._entry, self._source.read(self._entry))
        return self._view[1]
