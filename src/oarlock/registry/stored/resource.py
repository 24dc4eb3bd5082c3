"""`StoredResource`: one stored resource and its watch cache; the recipes work on it.

It finds objects, converts them to any version, and holds the server's settings. The recipes are functions in `create`,
`update`, `delete` and `read`; the methods here only name them.
Must not know: URLs, media types.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from oarlock.meta.errors import NotFound, StatusError, StorageReadError
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import ConversionKey, Encode, copy_unless_pure
from oarlock.registry.resource_base import ResourceBase
from oarlock.registry.served import Served, Settings
from oarlock.registry.stored.form import (
    PENDING,
    PendingEntries,
    StoredForm,
    after_prefix,
    body_of,
    encode_body,
    encode_tail,
    object_key,
)
from oarlock.registry.workers import offload_bytes
from oarlock.schema.definition import VersionDefinition
from oarlock.storage.cache.entry import Entry, Interner
from oarlock.storage.cache.watch_cache import ResourceCache, WatchCache
from oarlock.storage.pacing import Pacer

T = TypeVar("T")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

STEP = 50
"""After how many objects of many the clock is looked at."""


class StoredResource(ResourceBase):
    """One stored resource. `cache` is set once by ``live_resources``, when it has been loaded or taken over."""

    cache: ResourceCache

    def __init__(self, served: Served, watch_cache: WatchCache, settings: Settings, interner: Interner) -> None:
        super().__init__(served, settings)
        self.watch_cache = watch_cache
        self.selectable = self._place_selectable()
        self.form = StoredForm(served.definition, served.conversions, self._select, interner)
        self.conversions_to_try: dict[tuple[str, bool], tuple[VersionDefinition, ...]] = {}
        """The versions that ``convertibility`` has to try."""
        self._marks = {version: object() for version in self.compiled}
        self.tree_views: WeakValueDictionary[str, Any] = WeakValueDictionary()
        """What informers in this process have read, by version, as long as one of them is there."""
        self._conversions: dict[ConversionKey, asyncio.Future[bytes | StatusError]] = {}
        selectable = [v for v in served.definition.versions if v.selectable and v.name != served.definition.stored_as]
        if selectable and served.converter.waits:
            self.form.unselected = PendingEntries(self._select_pending)
        self.adopt_form()

    def take_over(self, before: StoredResource) -> None:
        """Use the cache of `before`, which stores objects alike. Call `adopt_form` once `before` is out of use."""
        self.form.retire()  # it refers to this resource: freed at once
        self.form, self.cache = before.form, before.cache

    def adopt_form(self) -> None:
        """Become the resource whose selectors the stored form uses."""
        self.form.used_by(self._select, self._select_pending, self._is_current, self.show)

    def show(self, tree: Tree, version: str) -> bool:
        """Default a tree stored in `version`, and prune one of a custom resource; returns whether that changed it."""
        compiled = self.compiled[version]
        if self.definition.typed:
            return compiled.fill_stored(tree)
        before = _encode(tree)
        compiled.prune(tree)
        compiled.normalize(tree)
        compiled.default(tree)
        return _encode(tree) != before

    def shows_alike(self, entries: Iterable[Entry]) -> bool:
        """Whether each object is under this definition what it is in the cache, and in the store."""
        stored_as, typed = self.definition.stored_as, self.definition.typed
        for entry in entries:
            if entry.extra is not None and not typed:
                return False
            if not entry.broken and self.show(_decode(b"{" + entry.body), stored_as):
                return False
        return True

    def _is_current(self, entry: Entry) -> bool:
        return self.cache.get(entry.key) is entry

    def _place_selectable(self) -> dict[str, dict[str, int]]:
        """By version: where in `Entry.fields` each field label's value is."""
        places: dict[str, dict[str, int]] = {}
        offset = 0
        for version in self.definition.versions:
            places[version.name] = {path.removeprefix("."): offset + i for i, path in enumerate(version.selectable)}
            offset += len(version.selectable)
        return places

    def _select(self, tree: Tree, unknown: dict[str, str]) -> tuple[str, ...]:
        values: tuple[str, ...] = ()
        for version in self.definition.versions:
            if not version.selectable:
                continue
            try:
                shown = self.look(tree, version.name)
            except StatusError as error:
                unknown[version.name] = error.message
                shown = None
            else:
                if shown is None:
                    unknown[version.name] = PENDING
            if shown is None:
                values += ("",) * len(version.selectable)
            else:
                values += self.compiled[version.name].selectable_values(shown)
        return values

    async def _select_pending(self, entries: Sequence[Entry]) -> list[Entry]:
        """Complete the selectable fields of entries; returns those that can't be converted to a needed version."""
        stored_as, unselectable = self.definition.stored_as, self.form.unselectable
        failed: dict[int, Entry] = {}
        for version in self.definition.versions:
            if not version.selectable or version.name == stored_as:
                continue
            places = list(self.selectable[version.name].values())
            made = await self.served.conversions.each(entries, self._read, stored_as, version.name)
            for entry, tree in zip(entries, made, strict=True):
                rev, unknown = unselectable.get(entry.key, (0, {}))
                if isinstance(tree, StatusError):
                    failed[id(entry)] = entry
                    if rev == entry.rev:
                        unknown[version.name] = tree.message
                    continue
                values = self.compiled[version.name].selectable_values(tree)
                entry.fields = entry.fields[: places[0]] + values + entry.fields[places[-1] + 1 :]
                if rev == entry.rev:
                    unknown.pop(version.name, "")
                    if not unknown:
                        unselectable.pop(entry.key, None)
        return list(failed.values())

    def look(self, stored: Tree, version: str) -> Tree | None:
        """A tree of the stored version in another version, read-only: it may share values with `stored`.

        None when the conversion has to wait. Raises what a conversion refuses with.
        """
        converter = self.served.converter
        if version == self.definition.stored_as or converter.alike:
            return stored
        made = self.served.conversions.now([copy_unless_pure(converter, stored)], self.definition.stored_as, version)
        return made[0] if made is not None else None

    async def fresh(self) -> None:
        """Wait until the cache has every write, by any server, from before this call, and its pending conversions."""
        wait = self.watch_cache.fresh()
        if wait is not None:
            await wait
        if self.form.unread.busy:
            await self.form.unread.settled()

    async def settled(self, selection_version: str = "") -> None:
        """Wait for pending conversions: of objects, and of the selectable fields of that version."""
        if self.form.unread.busy:
            await self.form.unread.settled()
        if selection_version and self.form.unselected is not None and self.form.unselected.busy:
            await self.form.unselected.settled()

    def key(self, namespace: str, name: str) -> str:
        return object_key(self.form.prefix, namespace, name)

    def range(self, namespace: str) -> tuple[str, str]:
        """The start and end of the key range of a namespace; of all namespaces for ``""``."""
        prefix = f"{self.form.prefix}{namespace}/" if namespace else self.form.prefix
        return prefix, after_prefix(prefix)

    def entry(self, namespace: str, name: str) -> Entry:
        """The cache's entry of an object. Raises NotFound; StorageReadError if it can't be read."""
        entry = self.cache.get(object_key(self.form.prefix, namespace, name))
        if entry is None:
            raise NotFound(self.definition.group_resource, name)
        if entry.broken:
            raise self.unreadable([(entry.key, entry.broken)])
        return entry

    def unreadable(self, found: Sequence[tuple[str, str]]) -> StorageReadError:
        """The error that names objects, by their keys, and why they can't be read."""
        shown = self.watch_cache.shown_key
        return StorageReadError(self.definition.group_resource, [(shown(key), why) for key, why in found])

    async def tree(self, entry: Entry, version: str) -> Tree:
        """The object as a new tree in `version`, with its resourceVersion. A large one is decoded in a thread.

        Raises ConversionError.
        """
        size = offload_bytes(entry.body)
        tree = await self.settings.workers.go_on(size, self._read, entry) if size else self._read(entry)
        return await self.convert(tree, self.definition.stored_as, version, size, stored=True)

    def _read(self, entry: Entry) -> Tree:
        tree: Tree = _decode(self.form.head + entry.body)
        return tree

    def tree_now(self, entry: Entry, version: str) -> Tree | None:
        """The same without waiting; None when the conversion has to wait."""
        converted = self.served.conversions.now([self._read(entry)], self.definition.stored_as, version, stored=True)
        return None if converted is None else converted[0]

    async def old(self, entry: Entry, version: str) -> Tree:
        """The object in `version`, as far as it can be read; never to be stored.

        For hooks that look at the old object.
        """
        size = offload_bytes(entry.body)
        tree = await self.settings.workers.go_on(size, self._read, entry)
        return await self.convert_old(tree, self.definition.stored_as, version, size)

    async def convert_old(self, tree: Tree, from_version: str, to_version: str, size: int = 0) -> Tree:
        """`Conversions.old`; `size` is the `workers.offload_bytes` of the object."""
        conversions = self.served.conversions
        if size and self.served.converter.threadsafe:
            made = await self.offload(size, conversions.old_now, tree, from_version, to_version)
            if made is not None:
                return made
        return await conversions.old(tree, from_version, to_version)

    async def body(self, entry: Entry, version: str) -> bytes:
        """The object's body (see ``stored.form``) in `version`."""
        if version == self.definition.stored_as:
            return entry.body
        cached = self._cached(entry, version)
        if cached is None:
            tree = await self.tree(entry, version)
            encoded = await self.offload(offload_bytes(entry.body), encode_body, tree)
            cached = self.cache_body(entry, version, encoded)
        return cached

    def body_now(self, entry: Entry, version: str) -> bytes | None:
        """The same without waiting; None when the conversion has to wait."""
        if version == self.definition.stored_as:
            return entry.body
        cached = self._cached(entry, version)
        if cached is not None:
            return cached
        tree = self.tree_now(entry, version)
        return None if tree is None else self.cache_body(entry, version, encode_body(tree))

    def _cached(self, entry: Entry, version: str) -> bytes | None:
        return self.settings.conversion_cache.get((entry.key, entry.rev, self._marks[version]))

    def cache_body(self, entry: Entry, version: str, body: bytes) -> bytes:
        """Cache the body of a converted object."""
        self.settings.conversion_cache.put((entry.key, entry.rev, self._marks[version]), body)
        return body

    async def derived(self, entries: Sequence[Entry], version: str, encode: Encode) -> list[bytes]:
        """What `encode` makes of the objects' bodies in `version`: made once, and kept while there is room.

        Encoders that are equal make the same bytes of the same body. Raises ConversionError.
        """
        cache, mark, at_hand = self.settings.conversion_cache, (self._marks[version], encode), self.definition.stored_as
        made: list[bytes] = []
        for entry in entries:
            key = entry.key, entry.rev, mark
            found = cache.get(key)
            if found is None:
                body = entry.body if version == at_hand else await self.body(entry, version)
                size = offload_bytes(body)
                found = await self.offload(size, encode, body) if size else encode(body)
                cache.put(key, found)
            made.append(found)
        return made

    def derived_now(self, entry: Entry, version: str, encode: Encode, body: bytes) -> bytes:
        """The same of one `body` that is at hand, for who can't wait."""
        key = entry.key, entry.rev, (self._marks[version], encode)
        found = self.settings.conversion_cache.get(key)
        if found is None:
            found = encode(body)
            self.settings.conversion_cache.put(key, found)
        return found

    async def bodies_of(self, entries: Sequence[Entry], version: str) -> list[bytes | StatusError]:
        """Bodies in `version`, converted in one call if that has to wait; for one that can't be converted, the error.

        Concurrent calls for the same object share one conversion.
        """
        result: list[bytes | StatusError | None] = [self._body_at_hand(entry, version) for entry in entries]
        missing = [at for at, body in enumerate(result) if body is None]
        mark = self._marks[version]
        mine = [at for at in missing if (entries[at].key, entries[at].rev, mark) not in self._conversions]
        theirs = {at: self._conversions[entries[at].key, entries[at].rev, mark] for at in set(missing) - set(mine)}
        if mine:
            made = await self._bodies_made([entries[at] for at in mine], version)
            for at, body in zip(mine, made, strict=True):
                result[at] = body
        for at, coming in theirs.items():
            await asyncio.wait([coming])
            if coming.cancelled():  # the call it waited for was cancelled
                (result[at],) = await self._bodies_made([entries[at]], version)
            else:
                result[at] = coming.result()
        return [body for body in result if body is not None]

    def _body_at_hand(self, entry: Entry, version: str) -> bytes | StatusError | None:
        if self.served.converter.waits or offload_bytes(entry.body):
            return entry.body if version == self.definition.stored_as else self._cached(entry, version)
        try:
            return self.body_now(entry, version)
        except StatusError as error:
            return error

    async def _bodies_made(self, entries: Sequence[Entry], version: str) -> list[bytes | StatusError]:
        loop, mark = asyncio.get_running_loop(), self._marks[version]
        coming = [loop.create_future() for _ in entries]
        keys = [(entry.key, entry.rev, mark) for entry in entries]
        self._conversions.update(zip(keys, coming, strict=True))
        try:
            made = await self.bodies_apart(entries, version)
            for entry, body, future in zip(entries, made, coming, strict=True):
                if not isinstance(body, StatusError):
                    self.cache_body(entry, version, body)
                future.set_result(body)
            return made
        finally:
            for key, future in zip(keys, coming, strict=True):
                if self._conversions.get(key) is future:
                    del self._conversions[key]
                future.cancel()

    async def bodies_apart(self, entries: Sequence[Entry], version: str) -> list[bytes | StatusError]:
        """The same for entries that aren't in the cache, such as old states in a watch; nothing is cached."""
        if not self.served.converter.waits and any(offload_bytes(entry.body) for entry in entries):
            return [await self._large_body(entry, version) for entry in entries]
        trees = await self.served.conversions.each(entries, self._read, self.definition.stored_as, version)
        pacer, bodies = Pacer(), list[bytes | StatusError]()
        for start in range(0, len(trees), STEP):
            await pacer.turn()
            some = trees[start : start + STEP]
            bodies += [tree if isinstance(tree, StatusError) else encode_body(tree) for tree in some]
        return bodies

    async def _large_body(self, entry: Entry, version: str) -> bytes | StatusError:
        try:
            tree = await self.tree(entry, version)
        except StatusError as error:
            return error
        return await self.offload(offload_bytes(entry.body), encode_body, tree)

    async def cache_answer(self, entry: Entry, version: str, tree: Tree) -> None:
        """Cache the body of the object just written as `entry`: `tree` in `version`."""
        size = offload_bytes(entry.body)
        tail = await self.offload(size, encode_tail, tree) if size else encode_tail(tree, large=False)
        self.cache_body(entry, version, body_of(tail, entry.rev))
