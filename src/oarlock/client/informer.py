"""`RemoteInformer`: the objects of a kind in memory, kept current by a list and a watch.

    boats = RemoteInformer(client, Boat, namespace="default")
    boats.add_handler(lambda old, new: print(old, new))
    async with boats:
        await boats.synced()
        boat = boats.get("a", "default")

Objects are kept as bytes until they are first read. After a 410 it lists again and tells its handlers the difference.
Source: client-go ``tools/cache``. See also: ``registry.informer``, the same in the server's own process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import msgspec

from oarlock.client.client import Client
from oarlock.client.kinds import KindPath
from oarlock.client.objects import Tree, metadata_of, shown
from oarlock.client.queries import ListQuery
from oarlock.client.transport import TransportError
from oarlock.codec import json
from oarlock.meta.errors import Expired, InvalidObject, StatusError

__all__ = ["RemoteInformer"]

T = TypeVar("T")

PAGE_SIZE = 2_000

log = logging.getLogger("oarlock.client")

Key = tuple[str, str]
"""Namespace and name."""

Handler = Callable[[T | None, T | None], object]
"""Called with the object before and after: None before it was created, and after it was deleted."""


class _ObjectHead(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class _Item(msgspec.Struct):
    metadata: _ObjectHead


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] = []


_page = msgspec.json.Decoder(_Page).decode
_head = msgspec.json.Decoder(_Item).decode


class _Entry(Generic[T]):
    """One object: bytes until it is read, then typed. `object` is None too when it doesn't fit its class."""

    __slots__ = ("data", "object", "version")

    def __init__(self, data: bytes, version: str) -> None:
        self.data = data
        self.version = version
        self.object: T | None = None


class RemoteInformer(Generic[T]):
    """The objects of `kind`, as they were a moment ago. Don't change what it returns: it is shared by all readers.

    With `namespace` or a selector, only those. An object that doesn't fit its class is left out and logged.
    """

    def __init__(
        self, client: Client, kind: type[T], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> None:
        self.kind = kind
        self._client = client
        self._namespace = namespace
        self._query = ListQuery(label_selector, field_selector, page_size=PAGE_SIZE)
        self._entries: dict[Key, _Entry[T]] = {}
        self._handlers: list[Handler[T]] = []
        self._indices: dict[str, _Index[T]] = {}
        self._synced = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._path: KindPath | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(), name=f"informer of {self.kind}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Reading

    async def synced(self) -> None:
        """Wait until everything that existed at the start is here. Raises what ended the informer."""
        waiting = asyncio.ensure_future(self._synced.wait())
        tasks = {waiting} if self._task is None else {waiting, self._task}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._task is not None and self._task.done():
            await self._task

    def get(self, name: str, namespace: str = "") -> T | None:
        """The object; None if it doesn't exist or doesn't fit its class."""
        entry = self._entries.get((namespace, name))
        return None if entry is None else self._read(entry)

    def __iter__(self) -> Iterator[T]:
        for entry in tuple(self._entries.values()):
            found = self._read(entry)
            if found is not None:
                yield found

    def __len__(self) -> int:
        return len(self._entries)

    def add_index(self, name: str, keys: Callable[[T], Iterable[str]]) -> None:
        """Keep an index: `keys` returns under which values an object is found. Call it before the start."""
        self._indices[name] = _Index(keys)

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects under `value` in an index. Raises KeyError for an index that wasn't added."""
        entries = (self._entries[key] for key in self._indices[name].of(value))
        return [found for entry in entries if (found := self._read(entry)) is not None]

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler` with the old and new object of each change; first with those that are here already.

        It runs in the event loop and may not wait. What it raises is logged.
        """
        self._handlers.append(handler)
        for entry in tuple(self._entries.values()):
            self._tell(handler, None, self._read(entry))

    # Following

    async def run(self) -> None:
        """List and watch until cancelled. Raises StatusError when the server refuses for good, such as 403."""
        self._path = await self._client.path(self.kind)
        failures = 0
        while True:
            try:
                version = await self._list(self._path)
                self._synced.set()
                failures = 0
                await self._follow(self._path, version)
            except Expired:
                failures = 1
                log.info("the watch of %s can't be continued: listing again", self._path.resource)
            except TransportError as error:
                failures += 1
                log.warning("%s can't be listed: %s", self._path.resource, error)
            except StatusError as error:
                if error.code not in (429, 500, 503, 504):
                    raise
                failures += 1
                log.warning("%s can't be listed: %s", self._path.resource, error.message)
            await self._client.pause(failures)

    async def _list(self, path: KindPath) -> str:
        """Take over what exists; returns the revision of the list."""
        listed: dict[Key, _Entry[T]] = {}
        token = ""
        while True:
            answer = await self._client.open(path.collection(self._namespace), self._query.pairs(token))
            try:
                page = _page(await answer.read())
                for raw in page.items:
                    data = bytes(raw)
                    meta = _head(data).metadata
                    listed[meta.namespace, meta.name] = _Entry(data, meta.resource_version)
            except msgspec.MsgspecError as error:
                raise TransportError(f"the answer is no list: {error}", sent=True) from None
            token = page.metadata.continue_
            if not token:
                break
        for key in tuple(self._entries):
            if key not in listed:
                self._replace(key, None)
        for key, entry in listed.items():
            known = self._entries.get(key)
            if known is None or known.version != entry.version:
                self._replace(key, entry)
        return page.metadata.resource_version

    async def _follow(self, path: KindPath, version: str) -> None:
        query = ListQuery(self._query.label_selector, self._query.field_selector, version)
        async for event, tree in self._client.events(path, query, self._namespace):
            if event != "BOOKMARK":
                metadata = metadata_of(tree)
                key = metadata.get("namespace", ""), metadata.get("name", "")
                self._replace(key, None if event == "DELETED" else self._entry(tree, path))

    def _entry(self, tree: Tree, path: KindPath) -> _Entry[T]:
        entry: _Entry[T] = _Entry(b"", metadata_of(tree).get("resourceVersion", ""))
        entry.object = self._shown(tree, path)
        return entry

    def _replace(self, key: Key, entry: _Entry[T] | None) -> None:
        before = self._entries.pop(key, None)
        if entry is not None:
            self._entries[key] = entry
        if not self._handlers and not self._indices:
            return
        old = None if before is None else self._read(before)
        new = None if entry is None else self._read(entry)
        for index in self._indices.values():
            index.replace(key, new)
        if old is not None or new is not None:
            for handler in self._handlers:
                self._tell(handler, old, new)

    def _tell(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception:
            log.exception("a handler of the informer of %s failed", self.kind)

    def _read(self, entry: _Entry[T]) -> T | None:
        if entry.data:
            assert self._path is not None
            data, entry.data = entry.data, b""
            head = {"apiVersion": self._path.api_version, "kind": self._path.kind}
            entry.object = self._shown({**head, **json.decode(data)}, self._path)
        return entry.object

    def _shown(self, tree: Tree, path: KindPath) -> T | None:
        try:
            found: T = shown(tree, path)
        except InvalidObject as error:
            metadata: Any = metadata_of(tree)
            name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}".lstrip("/")
            log.warning("%s %s is left out of its informer: %s", path.kind, name, error.message)
            return None
        return found


class _Index(Generic[T]):
    """Values → the keys of objects."""

    def __init__(self, keys: Callable[[T], Iterable[str]]) -> None:
        self._keys = keys
        self._objects: dict[str, dict[Key, None]] = {}
        self._values: dict[Key, tuple[str, ...]] = {}

    def of(self, value: str) -> Iterable[Key]:
        return self._objects.get(value, ())

    def replace(self, key: Key, new: T | None) -> None:
        for value in self._values.pop(key, ()):
            found = self._objects[value]
            found.pop(key, None)
            if not found:
                del self._objects[value]
        if new is not None:
            values = tuple(self._keys(new))
            self._values[key] = values
            for value in values:
                self._objects.setdefault(value, {})[key] = None
