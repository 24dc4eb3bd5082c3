"""`StoredForm`: one resource's objects, as the bytes in the store and as the cache's entries; their keys and values.

A stored value is a head and a tail, in the stored version: the tail begins after apiVersion and kind and is what
answers of any version are made of. One that isn't canonical, or of another version, is decoded, converted and encoded
again before it is cached. One that can't be decoded is a *broken* entry.
Must not know: verbs, admission. See also: `stored.resource`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from oarlock.codec import json as json_codec
from oarlock.codec import protobuf
from oarlock.codec.json import MANY_BYTES, encode_small_sorted, encode_sorted
from oarlock.codec.kubernetes_messages import kubernetes_message
from oarlock.meta.errors import StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import BUILT_IN_GROUPS
from oarlock.registry.conversions import ConversionError, Conversions
from oarlock.schema.definition import ResourceDefinition
from oarlock.storage.backend import Damaged, Stale
from oarlock.storage.cache.entry import Entry, Interner

_decode = msgspec.json.Decoder().decode


def is_protobuf(value: bytes) -> bool:
    """Whether kube-apiserver wrote the value as protobuf."""
    return value.startswith(protobuf.MAGIC)


def tree_of(value: bytes) -> Any:
    """What is in a value; nothing is said of its shape. Raises ValueError."""
    if not value.startswith(protobuf.MAGIC):
        return _decode(value)
    type_meta, message = protobuf.opened(value)
    api_version, kind = str(type_meta.get("apiVersion")), str(type_meta.get("kind"))
    group, _, version = api_version.rpartition("/")
    built_in = BUILT_IN_GROUPS.get(group)
    try:
        if built_in is None:
            raise KeyError(group)
        fields = kubernetes_message(f"{built_in.package.rpartition('.')[2]}.{version}.{kind}")
    except KeyError:
        raise ValueError(
            f"stored as protobuf, and a {kind} of {api_version} isn't known here: start kube-apiserver with "
            "--storage-media-type=application/json"
        ) from None
    return {**type_meta, **fields.read(message)}


_NO_OBJECTS = ("/registry//masterleases/", "/registry//peerserverleases/", "/registry//ranges/")
"""Where kube-apiserver keeps what it notes for itself."""


def prefix_of(group: str, resource: str) -> str:
    """The common prefix of a resource's keys; it ends with a slash."""
    built_in = BUILT_IN_GROUPS.get(group)
    place = "" if built_in is not None and built_in.stored_by_name else group
    return f"/registry/{place}/{resource}/"


def object_key(prefix: str, namespace: str, name: str) -> str:
    return f"{prefix}{namespace}/{name}" if namespace else prefix + name


def after_prefix(prefix: str) -> str:
    """The exclusive end of the key range of `prefix`, which ends with a slash."""
    return prefix[:-1] + "0"


def split_key(prefix: str, key: str) -> tuple[str, str]:
    """The namespace and name in an object's key."""
    namespace, _, name = key[len(prefix) :].rpartition("/")
    return namespace, name


def is_object_key(key: str) -> bool:
    """Whether there is an object at a key of ``/registry/``."""
    return not key.startswith(_NO_OBJECTS)


_encode = msgspec.json.Encoder().encode
_METADATA = b'"metadata":{'
_VERSIONED = b'"metadata":{"resourceVersion":"'


def encode_body(tree: Tree) -> bytes:
    """A tree as a body: everything after apiVersion and kind, with its resourceVersion."""
    version = tree["metadata"].get("resourceVersion")
    tail = encode_tail(tree)
    if not version:
        return tail
    return b'"metadata":{"resourceVersion":%s,%s' % (_encode(version), tail[12:])


def encode_tail(tree: Tree, *, large: bool = True) -> bytes:
    """Canonical bytes of everything but apiVersion and kind, from ``"metadata":{`` to the closing brace.

    A resourceVersion in the tree's metadata is left out. `large` is False for a tree that is known to be small.
    """
    metadata, encode = tree["metadata"], encode_sorted if large else encode_small_sorted
    if "resourceVersion" in metadata:
        metadata = {**metadata}
        del metadata["resourceVersion"]
    tail = b'"metadata":' + encode(metadata)
    rest = {**tree}
    del rest["metadata"]
    rest.pop("apiVersion", None)
    rest.pop("kind", None)
    if rest:
        fields = encode(rest)
        if b".0" in fields and json_codec.holds_whole_floats(fields):  # Go clients can't decode these as an integer
            fields = json_codec.encode_canonical(rest)
        tail = tail + b"," + fields[1:]
    else:
        tail += b"}"
    if b"<" in tail or b">" in tail or b"&" in tail:
        tail = tail.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
    return tail


def body_of(tail: bytes, rev: int) -> bytes:
    """The tail with its resourceVersion; `rev` 0 (for a dry run) leaves it out."""
    if not rev:
        return tail
    if tail[12:13] == b"}":
        return b'%s%d"%s' % (_VERSIONED, rev, tail[12:])
    return b'%s%d",%s' % (_VERSIONED, rev, tail[12:])


def tail_of(body: bytes) -> bytes:
    """The tail of a body: without its resourceVersion."""
    if not body.startswith(_VERSIONED):
        return body
    end = body.index(b'"', len(_VERSIONED)) + 1
    if body[end : end + 1] == b",":
        end += 1
    return _METADATA + body[end:]


STALE = "stale"
"""`Entry.extra` of an object stored in an old version, or otherwise not as today: even a no-op update rewrites it."""

PENDING = "its conversion is still being waited for"
_ENCRYPTED = b"k8s:enc:"
_ENCRYPTED_WHY = "it is encrypted: give the server the --encryption-provider-config that it was written with"
_NO_LABELS: dict[str, str] = {}

SelectFields = Callable[[Tree, dict[str, str]], tuple[str, ...]]
"""The selectable values of a tree in the stored version. Fills the dict with version → why its values are unknown."""

Show = Callable[[Tree, str], bool]
"""Makes a stored tree what the schema of its version says of it today; returns whether it was otherwise."""


class Encoded(Struct, frozen=True):
    """An object ready to be stored: its entry without the revision.

    `unknown` has version → why its selectable fields are unknown.
    """

    tail: bytes
    labels: dict[str, str] | None
    fields: tuple[str, ...]
    unknown: dict[str, str]


class Unread(NamedTuple):
    """`Entry.extra` of an object stored in `version` as `value`, while its conversion is pending."""

    value: bytes
    version: str


class StoredForm:
    """Encodes and decodes one resource's objects.

    `select` picks the selectable values of a tree in the stored version.
    """

    def __init__(
        self, definition: ResourceDefinition, conversions: Conversions, select: SelectFields, interner: Interner
    ) -> None:
        self.definition = definition
        self.prefix = prefix_of(definition.store_group, definition.names.plural)
        self.api_version = definition.api_version(definition.stored_as)
        self.head = self.head_of(definition.stored_as)
        self._conversions = conversions
        self._select = select
        self._show: Show | None = None
        self._interner = interner
        self._versions = {definition.api_version(v.name): v.name for v in definition.versions}
        self._initializes = bool(definition.initializers)
        self._no_fields = ("",) * (sum(len(v.selectable) for v in definition.versions) + self._initializes)
        self.broken: dict[str, int] = {}  # keys with a broken value → its revision, until a readable one is seen
        self.unselectable: dict[str, tuple[int, dict[str, str]]] = {}
        """Key → the latest revision, and version → why its selectable fields are unknown."""
        self.unread = PendingEntries(self._convert_pending)
        """Objects in old storage versions whose conversion is pending."""
        self.unselected: PendingEntries | None = None
        """Objects whose selectable fields are pending; None if no conversion for them has to wait."""

    def used_by(
        self, select: SelectFields, select_pending: Complete, is_current: Callable[[Entry], bool], show: Show | None
    ) -> None:
        """From now on another `StoredResource` uses this stored form. `show` is what objects are read with."""
        self._select = select
        self._show = show
        for pending in (self.unread, self.unselected):
            if pending is not None:
                pending.is_current = is_current
        if self.unselected is not None:
            self.unselected.complete = select_pending

    def retire(self) -> None:
        """Release the resource, and break the reference cycles: nothing is described or completed any more."""
        self._select, self._show = _no_fields, None
        self.unselected = None
        self.unread.is_current, self.unread.complete = _never_current, _none_completed

    def head_of(self, version: str) -> bytes:
        """The bytes before a tail of that version."""
        api_version = self.definition.api_version(version)
        return b'{"apiVersion":%s,"kind":%s,' % (_encode(api_version), _encode(self.definition.names.kind))

    def restore(self, entry: Entry) -> bytes:
        """The canonical stored value of an entry."""
        if isinstance(entry.extra, Unread):
            return entry.extra.value
        return self.head + tail_of(entry.body)

    def later(self, entry: Entry, rev: int) -> Entry:
        """The same object at a later revision, for the event of its deletion."""
        if isinstance(entry.extra, Unread):
            return self._pending(entry.key, rev, entry.create_rev, entry.extra)
        made = copy(entry)
        made.rev, made.body = rev, body_of(tail_of(entry.body), rev)
        return made

    def encode(self, tree: Tree, fields: tuple[str, ...] | None = None, *, large: bool = True) -> Encoded:
        """The stored form of `tree`, which is in the stored version. Without side effects.

        `fields` are the values of its selectable fields, if known already; `large` is False for a tree that is known to
        be small.
        """
        unknown: dict[str, str] = {}
        if fields is None:
            fields = self._select(tree, unknown) if self._no_fields else ()
        if self._initializes:
            # selections and lists look at the last of them
            fields = (*fields, "uninitialized" if tree["metadata"].get("initializers") else "")
        return Encoded(encode_tail(tree, large=large), tree["metadata"].get("labels"), fields, unknown)

    def entry(self, key: str, encoded: Encoded, rev: int, create_rev: int) -> Entry:
        """The entry of an object that was created and last changed at these revisions."""
        namespace, _, name = key[len(self.prefix) :].rpartition("/")
        labels = self._interner.labels(encoded.labels) if encoded.labels else _NO_LABELS
        body = body_of(encoded.tail, rev)
        entry = Entry(key, self._interner.text(namespace), name, rev, create_rev, body, labels, encoded.fields)
        if self.broken or self.unselectable or self.unread.busy:
            self._is_whole(key, rev)
        if encoded.unknown:
            self._lacks(entry, encoded.unknown)
        return entry

    def _is_whole(self, key: str, rev: int) -> None:
        """The value at `key` since `rev` can be read: forget what was noted of older ones."""
        if self.broken.get(key, rev) <= rev:
            self.broken.pop(key, None)
        if key in self.unselectable and self.unselectable[key][0] <= rev:
            del self.unselectable[key]
        self.unread.forget(key, rev)

    def _lacks(self, entry: Entry, unknown: dict[str, str]) -> None:
        """Note that an entry's selectable fields are unknown in these versions."""
        if entry.key not in self.unselectable or self.unselectable[entry.key][0] <= entry.rev:
            self.unselectable[entry.key] = entry.rev, unknown
        if self.unselected is not None:
            self.unselected.add(entry)

    def describe(self, key: str, value: bytes, rev: int, create_rev: int) -> Entry:
        """The entry for a value in the store. Never raises: a value that can't be read becomes a broken entry."""
        if isinstance(value, Damaged):
            return self._broken(key, rev, create_rev, value.why)
        try:
            tree, stored_as, otherwise = self._read(value)
            if self._show is not None and self._show(tree, stored_as):
                otherwise = True
            if stored_as != self.definition.stored_as:
                converted = self._conversions.now([tree], stored_as, self.definition.stored_as, stored=True)
                if converted is None:
                    return self._pending(key, rev, create_rev, Unread(value, stored_as))
                tree = converted[0]
            encoded = self.encode(tree, large=len(value) > MANY_BYTES)
            entry = self.entry(key, encoded, rev, create_rev)
        except StatusError as error:
            return self._broken(key, rev, create_rev, _why(error))
        except Exception as error:  # a value of unknown origin must not stop the cache
            why = f"{type(error).__name__}: {error}"
            return self._broken(key, rev, create_rev, _ENCRYPTED_WHY if value.startswith(_ENCRYPTED) else why)
        if otherwise or stored_as != self.definition.stored_as or isinstance(value, Stale):
            entry.extra = STALE
        return entry

    def _read(self, value: bytes) -> tuple[Tree, str, bool]:
        """Decode a stored value: the object, its version, and whether this server would store it otherwise."""
        tree = tree_of(value)
        if not isinstance(tree, dict) or not isinstance(tree.get("metadata"), dict):
            raise ValueError("not an object with metadata")
        if tree["metadata"].get("labels") is not None and not isinstance(tree["metadata"]["labels"], dict):
            raise ValueError("metadata.labels is not a map")
        api_version = tree.get("apiVersion")
        if api_version == self.api_version:
            return tree, self.definition.stored_as, is_protobuf(value)
        if not isinstance(api_version, str):
            raise ValueError(f"stored as {api_version!r}, which is no version")
        only_read = self._conversions.only_read.get(api_version)
        if only_read is not None:
            return only_read(tree), self.definition.stored_as, True
        version = self._versions.get(api_version)
        if version is None:
            raise ValueError(f"stored as {api_version!r}, which this server doesn't know")
        return tree, version, True

    def _pending(self, key: str, rev: int, create_rev: int, unread: Unread) -> Entry:
        entry = self._broken(key, rev, create_rev, PENDING)
        entry.extra, entry.body = unread, unread.value  # which is what it takes of the memory
        self.unread.add(entry)
        return entry

    async def _convert_pending(self, entries: Sequence[Entry]) -> list[Entry]:
        """Complete entries whose conversion is pending; returns those that can't be converted, which stay broken."""
        failed: list[Entry] = []
        for version in sorted({entry.extra.version for entry in entries}):
            some = [entry for entry in entries if entry.extra.version == version]
            made = await self._conversions.each(some, self._unread_tree, version, self.definition.stored_as)
            for entry, tree in zip(some, made, strict=True):
                if isinstance(tree, StatusError):
                    entry.broken = _why(tree)
                    failed.append(entry)
                else:
                    self._complete(entry, tree)
        return failed

    def _unread_tree(self, entry: Entry) -> Tree:
        tree: Tree = tree_of(entry.extra.value)
        if self._show is not None:
            self._show(tree, entry.extra.version)
        return tree

    def _complete(self, entry: Entry, tree: Tree) -> None:
        try:
            encoded = self.encode(tree)
            entry.labels = self._interner.labels(encoded.labels) if encoded.labels else _NO_LABELS
        except Exception as error:  # a converter may return anything
            entry.broken = f"{type(error).__name__}: {error}"
            return
        entry.body, entry.fields = body_of(encoded.tail, entry.rev), encoded.fields
        entry.extra, entry.broken = STALE, ""
        self._is_whole(entry.key, entry.rev)
        if encoded.unknown:
            self._lacks(entry, encoded.unknown)

    def _broken(self, key: str, rev: int, create_rev: int, why: str) -> Entry:
        namespace, name = split_key(self.prefix, key)
        entry = Entry(key, self._interner.text(namespace), name, rev, create_rev, b"", _NO_LABELS, self._no_fields)
        entry.broken = why
        self.broken[key] = max(rev, self.broken.get(key, 0))
        return entry


def _why(error: StatusError) -> str:
    return f"it can't be converted: {error.why if isinstance(error, ConversionError) else error.message}"


def _no_fields(tree: Tree, unknown: dict[str, str]) -> tuple[str, ...]:
    return ()


def _never_current(entry: Entry) -> bool:
    return False


async def _none_completed(entries: Sequence[Entry]) -> Sequence[Entry]:
    return entries


log = logging.getLogger("oarlock.registry")
BATCH = 500
BATCH_BYTES = 1024 * 1024
"""The most entries, and bytes of them, that are converted at once."""

RETRY_S = 5.0
"""Seconds before a reader causes entries that couldn't be completed to be tried again."""

Complete = Callable[[Sequence[Entry]], Awaitable[Sequence[Entry]]]
"""Completes entries in place; returns those it couldn't complete, with the reason noted in each."""


class PendingEntries:
    """The incomplete entries of one resource, and those who wait for them."""

    def __init__(self, complete: Complete) -> None:
        self.complete = complete
        self._waiting: deque[Entry] = deque()
        self._failed: dict[str, Entry] = {}
        self._added = self._done = 0
        self._readers: list[tuple[int, asyncio.Future[None]]] = []
        self._retry_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self.busy = False
        """Whether any entry is incomplete; then wait for `settled`."""
        self.is_current: Callable[[Entry], bool] = lambda entry: True
        """Whether the entry is still in use; if not, it isn't tried again."""

    def add(self, entry: Entry) -> None:
        """Begin to complete `entry`."""
        self._waiting.append(entry)
        self._added += 1
        self.busy = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="registry: pending conversions")

    def forget(self, key: str, rev: int) -> None:
        """The value at `key` since `rev` is complete: older entries of that key needn't be tried again."""
        if key in self._failed and self._failed[key].rev <= rev:
            del self._failed[key]
            self._look()

    async def settled(self) -> None:
        """Wait until everything added before has been completed or has failed."""
        loop = asyncio.get_running_loop()
        if self._failed and loop.time() >= self._retry_at:
            again, self._failed = self._failed, {}
            for entry in filter(self.is_current, again.values()):
                self.add(entry)
            self._look()
        if self._done < self._added:
            done: asyncio.Future[None] = loop.create_future()
            self._readers.append((self._added, done))
            await done

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._batch()
                try:
                    failed = await self.complete(batch)
                except Exception:
                    log.exception("completing %d entries failed", len(batch))
                    failed = batch
                for entry in failed:
                    self._failed[entry.key] = entry
                    self._retry_at = asyncio.get_running_loop().time() + RETRY_S
                self._done += len(batch)
                self._notify()
        finally:
            self._task = None
            self._done = self._added - len(self._waiting)
            self._look()
            self._notify()

    def _notify(self) -> None:
        waiting, self._readers = self._readers, []
        for until, done in waiting:
            if until > self._done and self._task is not None:
                self._readers.append((until, done))
            elif not done.done():
                done.set_result(None)

    def _batch(self) -> list[Entry]:
        batch: list[Entry] = []
        size = 0
        while self._waiting and len(batch) < BATCH and size < BATCH_BYTES:
            entry = self._waiting.popleft()
            size += len(entry.body)
            batch.append(entry)
        return batch

    def _look(self) -> None:
        self.busy = bool(self._waiting or self._failed or self._task is not None)
