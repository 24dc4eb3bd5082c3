"""The recipes of GET and LIST, with the semantics of resourceVersion, and the results that all recipes return.

Unset: a consistent read (`StoredResource.fresh`). ``0``: whatever the cache has. Another one: the cache, once it is at
least as new. An exact one, or that of a continue token: a snapshot at that revision. Source: "Resource versions" in the
Kubernetes API concepts; KEP-2340 for consistent reads from the cache. See also: ``storage.cache``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from msgspec import Struct

from oarlock.meta import continuation
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, Expired, TooLargeResourceVersion, TooManyRequests
from oarlock.meta.json_trees import Tree
from oarlock.meta.options import ListOptions
from oarlock.registry.read.selection import (
    COMPILED_AT_ONCE,
    EVERYTHING,
    SelectedKind,
    Selection,
    compile_selection,
    initialized_only,
)
from oarlock.registry.stored.form import encode_body
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.workers import aside, is_wide
from oarlock.storage.backend import Compacted, FutureRevision
from oarlock.storage.cache.entry import Entry


class Item(Protocol):
    """One object."""

    async def body(self, version: str) -> bytes:
        """The object in `version`, the request version: everything after apiVersion and kind (see ``stored.form``)."""
        ...

    async def tree(self, version: str) -> Tree:
        """The object in `version`, the request version."""
        ...


class EntryItem(Struct, frozen=True):
    """An object in the cache, which has the bytes of the stored version."""

    resource: StoredResource
    entry: Entry

    async def body(self, version: str) -> bytes:
        return await self.resource.body(self.entry, version)

    async def tree(self, version: str) -> Tree:
        return await self.resource.tree(self.entry, version)


class TreeItem(NamedTuple):
    """An object that isn't in the cache, in the request version: of a dry run, of a virtual resource, or deleted."""

    shown: Tree

    async def body(self, version: str) -> bytes:
        shown = self.shown
        return await aside(encode_body, shown) if is_wide(shown) else encode_body(shown)

    async def tree(self, version: str) -> Tree:
        return self.shown


class ListItem(Protocol):
    """One object of a list. `body` is in the version that the list names."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def body(self) -> bytes: ...


class EncodedItem(NamedTuple):
    """An object of a list of a virtual resource."""

    namespace: str
    name: str
    body: bytes

    @classmethod
    def of(cls, tree: Tree) -> EncodedItem:
        metadata = tree["metadata"]
        return cls(metadata.get("namespace", ""), metadata.get("name", ""), encode_body(tree))


class MutationResult(Struct, frozen=True):
    """The result of a write.

    `created` makes a 201; `removed` says that a DELETE removed the object with this `uid` and `name`.
    """

    item: Item
    created: bool = False
    removed: bool = False
    uid: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list at `resource_version`: chunks of items in key order, whose bodies are in `version`.

    `remaining` is None when unknown.
    """

    version: str
    chunks: Iterable[Sequence[ListItem]]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


LIST_EXPIRED = "The resourceVersion for the provided list is too old."
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
FIRST_PAGE = 500
LARGEST_PAGE = 10_000

REMEMBERED = 256
"""What longer selectors select isn't remembered: compiled, they take a few hundred bytes per character."""


async def get(resource: StoredResource, namespace: str, name: str, resource_version: str) -> Entry:
    """The object, at least as new as `resource_version`. Raises NotFound, TooLargeResourceVersion."""
    check_ready(resource)
    if not resource_version:
        await resource.fresh()
    elif resource_version != "0":
        await wait_for(resource, revision(resource_version))
    if resource.form.unread.busy:
        await resource.settled()
    return resource.entry(namespace, name)


def check_ready(resource: StoredResource) -> None:
    """Raises TooManyRequests while the cache of the resource is being loaded again."""
    if not resource.cache.ready:
        raise TooManyRequests("storage is (re)initializing")


def revision(text: str) -> int:
    """A resourceVersion parameter as a number; ``""`` is 0. Raises BadRequest."""
    try:
        return continuation.parse_resource_version(text)
    except ValueError as error:
        raise BadRequest(str(error)) from None


async def wait_for(resource: StoredResource, rev: int) -> None:
    """Wait until the cache has `rev`. Raises TooLargeResourceVersion after 3 seconds."""
    if rev <= resource.watch_cache.rev:
        return
    try:
        await resource.watch_cache.wait_for(rev)
    except FutureRevision as error:
        raise TooLargeResourceVersion(rev, error.current_rev) from None


async def select(resource: StoredResource, version: str, options: ListOptions) -> Selection:
    """The compiled selectors of a list, watch or deletecollection; long ones are compiled in a thread.

    Raises BadRequest.
    """
    texts = options.label_selector, options.field_selector
    places, kind = resource.selectable[version], SelectedKind(resource.definition.typed, resource.definition.namespaced)
    if not texts[0] and not texts[1]:
        chosen = EVERYTHING
    elif len(texts[0]) + len(texts[1]) <= COMPILED_AT_ONCE:
        chosen = resource.settings.selections.compiled(*texts, places, version, kind)
    else:
        compiled = partial(compile_selection, *texts, places, version, kind)
        chosen = await asyncio.get_running_loop().run_in_executor(None, compiled)
    hides = resource.definition.initializers and not options.include_uninitialized
    return initialized_only(chosen) if hides else chosen


@dataclass(frozen=True, slots=True)
class _ListRange:
    """The range, limit and revision of a list."""

    start: str
    begin: str
    end: str
    limit: int
    rev: int  # 0: now
    version: str  # of the entries


async def list_entries(resource: StoredResource, namespace: str, options: ListOptions, selection: Selection) -> Listing:
    """List a namespace, or all with ``""``. Raises BadRequest, Expired, TooLargeResourceVersion, StorageReadError."""
    check_ready(resource)
    start, end = resource.range(namespace)
    if selection.namespace and not namespace and resource.definition.namespaced:
        start, end = resource.range(selection.namespace)
    page = await _place(resource, options, start, end)
    await resource.settled(selection.version)
    if page.rev:
        return await _at(resource, page, selection)
    if selection.name is not None and (namespace or selection.namespace or not resource.definition.namespaced):
        return _single(resource, start, selection)
    _refuse_broken(resource, page)
    _refuse_unselectable(resource, page, selection)
    snapshot, rev = resource.cache.snapshot(), resource.watch_cache.rev
    if page.limit and not selection.everything:
        return await _filtered(resource, page, selection, rev)
    if page.limit:
        slices, more = snapshot.page(page.begin, end, page.limit)
        remaining = snapshot.count(page.begin, end) - page.limit if more else 0
        return _page_of(page, rev, selection, slices, more, remaining)
    if selection.everything:
        return Listing(page.version, snapshot.range(page.begin, end), str(rev))
    if len(options.label_selector) + len(options.field_selector) > REMEMBERED:
        return Listing(page.version, [await selection.filter(snapshot.range(page.begin, end))], str(rev))
    by = (selection, page.begin, end)
    chosen = snapshot.selected(by)
    if chosen is None:
        chosen = snapshot.remember(by, await selection.filter(snapshot.range(page.begin, end)))
    return Listing(page.version, [chosen], str(rev))


async def _place(resource: StoredResource, options: ListOptions, start: str, end: str) -> _ListRange:
    """Choose the revision of the answer, and wait until the cache has it."""
    text = options.resource_version
    limit = 0 if text == "0" or options.limit < 0 else options.limit
    rev, after = continuation.list_position(options)
    if options.continue_token:
        if not rev:
            await resource.fresh()
    elif rev:
        await wait_for(resource, rev)
    elif not text:
        await resource.fresh()
    elif text != "0":
        await wait_for(resource, revision(text))
    return _ListRange(start, start + after, end, limit, rev, resource.definition.stored_as)


def _refuse_broken(resource: StoredResource, page: _ListRange) -> None:
    if not resource.form.broken:
        return
    found = []
    for key in sorted(resource.form.broken):
        entry = resource.cache.get(key) if page.begin <= key < page.end else None
        if entry is not None and entry.broken:
            found.append((key, entry.broken))
    if found:
        raise resource.unreadable(found)


def _refuse_unselectable(resource: StoredResource, page: _ListRange, selection: Selection) -> None:
    """Refuse a field selector if an object in range can't be converted to the version whose fields it names."""
    if not selection.version or not resource.form.unselectable:
        return
    found = []
    for key, (_, whys) in sorted(resource.form.unselectable.items()):
        why = whys.get(selection.version)
        if why and page.begin <= key < page.end and resource.cache.get(key) is not None:
            found.append((key, why))
    if found:
        raise resource.unreadable(found)


def _whole(resource: StoredResource, slices: Sequence[Sequence[Entry]]) -> None:
    """Refuse an exact list with objects that can't be read: their current state may differ."""
    found = [(entry.key, entry.broken) for entries in slices for entry in entries if entry.broken]
    if found:
        raise resource.unreadable(found)


def _single(resource: StoredResource, start: str, selection: Selection) -> Listing:
    """``metadata.name=x``: one look-up in the cache, answered as a list."""
    rev = resource.watch_cache.rev
    entry = resource.cache.get(start + (selection.name or ""))
    if entry is not None:
        _whole(resource, [[entry]])
    chosen = [entry] if entry is not None and selection.matches(entry) else []
    return Listing(resource.definition.stored_as, [chosen], str(rev))


async def _at(resource: StoredResource, page: _ListRange, selection: Selection) -> Listing:
    """A list at an exact revision."""
    try:
        if page.limit and not selection.everything:
            return await _filtered(resource, page, selection, page.rev)
        slices, more, remaining = await resource.cache.list_at(page.rev, page.begin, page.end, page.limit)
    except Compacted:
        raise _expired(page) from None
    except FutureRevision as error:
        raise TooLargeResourceVersion(page.rev, error.current_rev) from None
    await resource.settled(selection.version)
    _whole(resource, slices)
    chosen = slices if selection.everything else [await selection.filter(slices)]
    if not page.limit:
        return Listing(page.version, chosen, str(page.rev))
    return _page_of(page, page.rev, selection, chosen, more, remaining)


def _expired(page: _ListRange) -> Expired:
    if page.begin == page.start:
        return Expired(LIST_EXPIRED)
    return Expired(CONTINUE_EXPIRED, continuation.encode(-1, page.begin[len(page.start) :]))


def _page_of(
    page: _ListRange, rev: int, selection: Selection, slices: Sequence[Sequence[Entry]], more: bool, remaining: int
) -> Listing:
    if not more:
        return Listing(page.version, slices, str(rev))
    token = continuation.encode(rev, slices[-1][-1].key[len(page.start) :] + "\0")
    return Listing(page.version, slices, str(rev), token, remaining if selection.everything else None)


async def _filtered(resource: StoredResource, page: _ListRange, selection: Selection, rev: int) -> Listing:
    """A page of the objects a selector matches: reads in growing steps until the page is full or the range ends."""
    chosen: list[Entry] = []
    begin, size = page.begin, max(page.limit, FIRST_PAGE)
    while True:
        slices, more, _ = await resource.cache.list_at(rev, begin, page.end, size)
        await resource.settled(selection.version)
        _whole(resource, slices)
        chosen += await selection.filter(slices)
        if len(chosen) >= page.limit or not more:
            break
        begin, size = slices[-1][-1].key + "\0", min(size * 2, LARGEST_PAGE)
    page_is_full = len(chosen) >= page.limit
    full = page_is_full and (more or slices[-1][-1].key > chosen[page.limit - 1].key)
    return _page_of(page, rev, selection, [chosen[: page.limit]], full, 0)
