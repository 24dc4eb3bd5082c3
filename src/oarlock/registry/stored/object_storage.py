"""`StoredObjectStorage`: keeps the objects of a stored resource in the store, by compare and swap.

An object is encoded in the stored version, if it can be shown in every other one (`_storable`), and written only if its
bytes have changed. A write that meets a newer object is reported as None, so that the recipe runs again on that one.
Must not know: how objects are made. See also: ``write.write_request``, the interface; `stored.form`, the bytes.
"""

from __future__ import annotations

import sys
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from oarlock.meta.errors import AlreadyExists, Conflict, NotFound, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.patch.apply.tracking import keep_times
from oarlock.registry.conversions import ConversionError, copy_tree
from oarlock.registry.read.recipes import EntryItem, Item, MutationResult, TreeItem
from oarlock.registry.stored.form import STALE, Encoded, tail_of, tree_of
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.workers import offload_bytes
from oarlock.registry.write.initializing import is_refused
from oarlock.registry.write.metadata import is_deleting, is_held, mark_deleted, shorten_grace
from oarlock.registry.write.write_request import (
    CheckedObject,
    LiveObject,
    Precondition,
    WriteRequest,
    readable_after_all,
)
from oarlock.schema.definition import VersionDefinition
from oarlock.storage.backend import KEEP_TTL, KV, OutcomeUnknown, StorageError, WriteResult
from oarlock.storage.cache.entry import Entry


class _StorableObject(Struct, frozen=True):
    """An object that may be stored, in the stored and in the request version.

    `fields` are the values of its selectable fields, and `answer` is its tree in the request version as it will be read
    back; None where not known.
    """

    stored: Tree
    shown: Tree
    fields: tuple[str, ...] | None = None
    answer: Tree | None = None


def _storable(
    resource: StoredResource,
    new: _StorableObject,
    version: str,
    live: LiveObject | None,
    tries: tuple[VersionDefinition, ...],
) -> _StorableObject:
    """Check that the object, with `version` as the request version, can be shown in every version of `tries`.

    An object that couldn't be converted before the update may stay so, or nobody could delete it. A converter that
    waits isn't called, as Kubernetes doesn't call webhooks for this either. Raises what a conversion refuses with, and
    ConversionError.
    """
    try:
        return _read_back(resource, new, version, tries)
    except StatusError:
        if live is None or _is_readable(resource, live):
            raise
        return new


def _read_back(
    resource: StoredResource, new: _StorableObject, version: str, tries: tuple[VersionDefinition, ...]
) -> _StorableObject:
    fields: tuple[str, ...] = ()
    answer: Tree | None = None
    for attempt in tries:
        tree = resource.look(new.stored, attempt.name)
        assert tree is not None  # a converter that never waits returns it at once
        if attempt.selectable:
            fields += resource.compiled[attempt.name].selectable_values(tree)
        if attempt.name == version:
            answer = tree
    return replace(new, fields=fields, answer=answer if version != resource.definition.stored_as else None)


def _versions_to_try(resource: StoredResource, version: str, through_hub: bool) -> tuple[VersionDefinition, ...]:
    """The versions that the write hasn't converted to, or whose selectable fields are needed.

    `through_hub` says that it has been converted to the hub version.
    """
    definition, converter = resource.definition, resource.served.converter
    if len(resource.compiled) == 1 or converter.alike or converter.waits:
        return ()
    stored_as = definition.stored_as
    tried = {stored_as, definition.hub} if through_hub and version == stored_as else {stored_as}
    return tuple(
        served
        for served in definition.versions
        if served.selectable or (served.name not in tried and (served.served or served.name == version))
    )


def _is_readable(resource: StoredResource, live: LiveObject) -> bool:
    if live.entry is None:
        return True
    for version in resource.definition.versions:
        try:
            resource.tree_now(live.entry, version.name)
        except StatusError:
            return False
    return True


_decode = msgspec.json.Decoder().decode


class StoredObjectStorage:
    """The `ObjectStorage` of a stored resource."""

    keeps_metadata = True
    attempts = sys.maxsize
    """Until the deadline."""

    def __init__(self, resource: StoredResource) -> None:
        self._resource = resource

    def key(self, write: WriteRequest) -> str:
        target = write.ctx.target
        return self._resource.key(target.namespace, target.name)

    async def get(self, write: WriteRequest, *, replaces: bool) -> LiveObject:
        """The object in the request version. One that can't be converted can still be replaced as a whole.

        Of the old object only the metadata is kept then. Not through a spoke that isn't the stored version: the fields
        it can't represent would be lost.
        """
        resource, version, definition = self._resource, write.version, write.definition
        await resource.fresh()
        entry = resource.entry(write.ctx.target.namespace, write.ctx.target.name)
        size, data = offload_bytes(entry.body), resource.form.head + entry.body
        if version == definition.stored_as:
            tree = await resource.settings.workers.go_on(size, _decode, data) if size else _decode(data)
            return LiveObject(tree, data, size, True, entry)
        try:
            return LiveObject(await resource.tree(entry, version), b"", size, True, entry)
        except ConversionError:
            if write.part.fields or not replaces or version != definition.hub:
                raise
            return LiveObject(await resource.old(entry, version), b"", size, False, entry)

    async def find(self, write: WriteRequest) -> LiveObject:
        """The object in the request version as far as it can be read if admission looks at it, else as it is stored."""
        resource = self._resource
        await resource.fresh()
        entry = resource.entry(write.ctx.target.namespace, write.ctx.target.name)
        if write.reviewers is not None:
            tree = await resource.old(entry, write.version)
        else:
            tree = await resource.tree(entry, write.definition.stored_as)
        return LiveObject(tree, b"", offload_bytes(entry.body), True, entry)

    async def live_hub(self, write: WriteRequest, live: LiveObject) -> Tree:
        resource, definition = self._resource, write.definition
        assert live.entry is not None
        if write.version == definition.stored_as:
            return await resource.convert_old(live.tree, write.version, definition.hub, write.offload_bytes)
        return await resource.tree(live.entry, definition.hub)  # which may have more fields than the request version

    async def create(self, write: WriteRequest, made: CheckedObject) -> MutationResult:
        resource, definition = self._resource, write.definition
        new = await self._storable(write, made, None)
        metadata = new.stored["metadata"]
        name = metadata.get("name", "")
        key = resource.key(metadata.get("namespace", ""), name)
        if write.ctx.dry_run:
            await resource.fresh()
            present = resource.cache.get(key)
            if present is not None:
                deleting = not present.broken and is_deleting((await resource.tree(present, write.version))["metadata"])
                error = AlreadyExists(definition.group_resource, name)
                raise error.while_deleted() if deleting else error
            return MutationResult(TreeItem(await self._as_read(write, new)), created=True)
        encode = resource.form.encode
        if write.offload_bytes:
            encoded = await write.offload(encode, new.stored, new.fields)
        else:
            encoded = encode(new.stored, new.fields, large=False)
        try:
            result, entry = await self._put(key, encoded, 0, None)
            if not result.ok and await self._left_behind(write, result.current):
                result, entry = await self._put(key, encoded, 0, None)
        except OutcomeUnknown:
            entry = await self._arrived(key, metadata["uid"])
            if entry is None:
                raise
            return MutationResult(EntryItem(resource, entry), created=True)
        if not result.ok or entry is None:
            error = AlreadyExists(definition.group_resource, name)
            raise error.while_deleted() if _being_deleted(result.current) else error
        if new.answer is not None:
            await resource.cache_answer(entry, write.version, new.answer)
        return MutationResult(EntryItem(resource, entry), created=True)

    async def replace(
        self, write: WriteRequest, made: CheckedObject, live: LiveObject | None, precondition: Precondition
    ) -> MutationResult | None:
        resource = self._resource
        assert live is not None
        entry = live.entry
        assert entry is not None
        new = await self._storable(write, made, live)
        stored, shown = new.stored, new.shown
        metadata = stored["metadata"]
        metadata["resourceVersion"] = shown["metadata"]["resourceVersion"] = str(entry.rev)
        waits = metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and not waits and not is_held(write.definition, stored):
            if not write.ctx.dry_run and not (await resource.cache.writes.delete(entry.key, expect=entry.rev)).ok:
                _refuse_overtaken(write, precondition)
                return None
            return MutationResult(TreeItem(shown))
        if not write.offload_bytes and keep_times(live.tree, shown) is shown:
            lasting = stored
        else:
            lasting = await self._without_new_times(write, new, live)
        encode = resource.form.encode
        if write.offload_bytes:
            encoded = await write.offload(encode, lasting, new.fields)
        else:
            encoded = encode(lasting, new.fields, large=False)
        refused = write.definition.initializers and is_refused(write.definition, stored)
        if encoded.tail == tail_of(entry.body) and not refused and not await self._is_stale(entry):
            return MutationResult(EntryItem(resource, entry))
        if write.ctx.dry_run:
            return MutationResult(TreeItem(await self._as_read(write, new)))
        result, written = await self._put(entry.key, encoded, entry.rev, KEEP_TTL)
        if not result.ok or written is None:
            _refuse_overtaken(write, precondition)
            return None
        if new.answer is not None and lasting is stored:
            await resource.cache_answer(written, write.version, new.answer)
        if refused:  # stored first, so that whoever waits reads why
            await resource.cache.writes.delete(written.key, expect=written.rev)
        return MutationResult(EntryItem(resource, written))

    async def delete(
        self, write: WriteRequest, live: LiveObject | None, finalizers: list[str]
    ) -> MutationResult | None:
        resource, ctx = self._resource, write.ctx
        assert live is not None
        entry = live.entry
        assert entry is not None
        metadata = live.tree["metadata"]
        elsewhere = write.definition.finalizers_at
        if not write.grace_s and not finalizers and not (elsewhere and is_held(write.definition, live.tree)):
            if not ctx.dry_run and not (await resource.cache.writes.delete(entry.key, expect=entry.rev)).ok:
                return None
            last: Item = EntryItem(resource, entry)
            begins = write.hooks.grace_s is not None and not is_deleting(metadata)
            if begins or metadata.get("deletionGracePeriodSeconds"):
                ended = await resource.tree(entry, write.version)
                if begins:
                    mark_deleted(ended["metadata"], ctx)
                else:
                    shorten_grace(ended["metadata"], 0)
                last = TreeItem(ended)
            return MutationResult(last, removed=True, uid=metadata.get("uid", ""), name=entry.name)
        if is_deleting(metadata) and metadata.get("finalizers", []) == finalizers and not _hurries(write, metadata):
            return MutationResult(EntryItem(resource, entry))
        stored = await self._marked(write, entry, finalizers)
        if ctx.dry_run:
            shown = await resource.convert(stored, write.definition.stored_as, write.version)
            return MutationResult(TreeItem(shown))
        encoded = await resource.offload(live.offload_bytes, resource.form.encode, stored)
        result, written = await self._put(entry.key, encoded, entry.rev, KEEP_TTL, renew=False)
        return MutationResult(EntryItem(resource, written)) if result.ok and written is not None else None

    async def _marked(self, write: WriteRequest, entry: Entry, finalizers: list[str]) -> Tree:
        """The object in the stored version with these finalizers, as one that is being deleted."""
        definition, resource, hook = write.definition, self._resource, write.hooks.mark_deleted
        stored = await resource.tree(entry, definition.stored_as)
        metadata = stored["metadata"]
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        if is_deleting(metadata):
            if _hurries(write, metadata):
                shorten_grace(metadata, write.grace_s)
            return stored
        mark_deleted(
            metadata,
            write.ctx,
            grace=not (definition.finalizers_at or definition.cleanup_finalizer),
            grace_s=write.grace_s,
        )
        if hook is None:
            return stored
        hub = await write.convert(stored, definition.stored_as, definition.hub)
        return await write.convert(hook(hub, write.ctx), definition.hub, definition.stored_as)

    async def _is_stale(self, entry: Entry) -> bool:
        """Whether the same object is to be written again, because it is stored in an old form."""
        writes = self._resource.cache.writes
        return entry.extra is STALE or (writes.rewrites and await writes.is_stale(entry.key, entry.rev))

    async def delete_unreadable(self, write: WriteRequest) -> MutationResult | None:
        resource, target = self._resource, write.ctx.target
        await resource.fresh()
        entry = resource.cache.get(self.key(write))
        if entry is None:
            raise NotFound(write.definition.group_resource, target.name)
        if not entry.broken:
            raise readable_after_all(write)
        if not (await resource.cache.writes.delete(entry.key, expect=entry.rev)).ok:
            return None
        return MutationResult(EntryItem(resource, entry), removed=True, name=entry.name)

    async def _storable(self, write: WriteRequest, made: CheckedObject, live: LiveObject | None) -> _StorableObject:
        """The object in the stored version, checked that it can be shown in every version."""
        definition, stored = write.definition, made.tree
        through_hub = made.hub is not None
        if write.version != definition.stored_as and made.hub is not None:
            stored = made.hub
            if definition.hub != definition.stored_as:
                copy = await write.offload(copy_tree, stored)
                stored = await write.convert(copy, definition.hub, definition.stored_as)
            if not definition.typed:
                self._resource.compiled[definition.stored_as].default(stored)
        resource, version, new = self._resource, write.version, _StorableObject(stored, made.tree)
        tries = resource.conversions_to_try.get((version, through_hub))
        if tries is None:
            tries = resource.conversions_to_try[version, through_hub] = _versions_to_try(resource, version, through_hub)
        return await write.offload(_storable, resource, new, version, live, tries) if tries else new

    async def _as_read(self, write: WriteRequest, new: _StorableObject) -> Tree:
        """The object as it would be read back: a custom resource loses what the stored version has no field for."""
        stored_as = write.definition.stored_as
        if write.definition.typed or write.version == stored_as:
            return new.shown
        return await write.convert(await write.offload(copy_tree, new.stored), stored_as, write.version)

    async def _put(
        self, key: str, encoded: Encoded, rev: int, ttl_ms: int | None, *, renew: bool = True
    ) -> tuple[WriteResult, Entry | None]:
        """Write the object if the key is still at `rev`. `renew` restarts the resource's time to live."""
        form, ttl_s = self._resource.form, self._resource.definition.ttl_s
        return await self._resource.cache.writes.put(
            key,
            form.head + encoded.tail,
            expect=rev,
            ttl_ms=ttl_s * 1000 if renew and ttl_s is not None else ttl_ms,
            draft=partial(form.entry, key, encoded),
        )

    async def _without_new_times(self, write: WriteRequest, new: _StorableObject, live: LiveObject) -> Tree:
        """The object to store: a change of nothing but timestamps in managedFields is no change."""
        stored, shown = new.stored, new.shown
        same_times = (
            keep_times(live.tree, shown)
            if not write.offload_bytes
            else await write.offload(keep_times, live.tree, shown)
        )
        if same_times is shown:
            return stored
        stored_as = write.definition.stored_as
        assert live.entry is not None
        old = live.tree if write.version == stored_as else await self._resource.tree(live.entry, stored_as)
        return await write.offload(keep_times, old, stored)

    async def _left_behind(self, write: WriteRequest, current: KV | None) -> bool:
        """Whether there was an object that an initializer refused, by a server that stopped before deleting it."""
        if not write.definition.initializers or current is None:
            return False
        await self._resource.fresh()
        entry = self._resource.cache.get(current.key)
        if entry is None or entry.broken:
            return entry is None
        if not is_refused(write.definition, await self._resource.tree(entry, write.definition.stored_as)):
            return False
        return (await self._resource.cache.writes.delete(entry.key, expect=entry.rev)).ok

    async def _arrived(self, key: str, uid: str) -> Entry | None:
        """The object, if its write succeeded although the result was lost: its uid is new for this request."""
        resource = self._resource
        try:
            await resource.fresh()
        except StorageError:
            return None
        entry = resource.cache.get(key)
        if entry is None or entry.broken:
            return None
        tree = await resource.tree(entry, resource.definition.stored_as)
        return entry if tree["metadata"].get("uid") == uid else None


def _hurries(write: WriteRequest, metadata: Tree) -> bool:
    """Whether a DELETE leaves an object less time than the one before."""
    return write.grace_s < (metadata.get("deletionGracePeriodSeconds") or 0)


def _refuse_overtaken(write: WriteRequest, precondition: Precondition) -> None:
    """Another write came first: raise Conflict for a PUT that named a resourceVersion."""
    if precondition.version and precondition.replaces:
        raise Conflict(write.definition.group_resource, write.ctx.target.name)


def _being_deleted(current: KV | None) -> bool:
    if current is None:
        return False
    try:
        return is_deleting(tree_of(current.value)["metadata"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
