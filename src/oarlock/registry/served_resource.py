"""`ServedResource`: a resource at run time as ``endpoints`` uses it, wherever its objects are.

`StoredVerbs` and `VirtualVerbs` are the two kinds: each is the resource that the recipes work on, with the recipes as
its methods.
Must not know: URLs, media types. See also: `live_resources`, which makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, cast

import msgspec

from oarlock.meta.context import Context
from oarlock.meta.errors import NotFound, StatusError
from oarlock.meta.options import DeleteOptions, ListOptions
from oarlock.patch.apply.tracking import FieldTracker
from oarlock.registry.conversions import Encode
from oarlock.registry.read import recipes as read
from oarlock.registry.read.recipes import EntryItem, Item, Listing, ListItem, MutationResult
from oarlock.registry.served import Served, Settings
from oarlock.registry.stored.object_storage import StoredObjectStorage
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.virtual.object_storage import VirtualObjectStorage
from oarlock.registry.virtual.resource import VirtualResource
from oarlock.registry.workers import offload_bytes
from oarlock.registry.write import delete, recipe
from oarlock.registry.write.body import DecodedBody
from oarlock.registry.write.initializing import is_uninitialized
from oarlock.registry.write.recipe import Change
from oarlock.registry.write.write_request import Gate, ObjectStorage
from oarlock.schema.compiled import CompiledVersion
from oarlock.schema.definition import ResourceDefinition
from oarlock.storage.cache.entry import Entry, Interner
from oarlock.storage.cache.watch_cache import WatchCache


class ServedResource(Protocol):
    """One resource at run time. `ctx.target` names the object or the collection; `version` is the request version.

    `bodies` are the compiled body types of subresources, by version and name.
    `deletions_at_a_time` says how many objects of a collection are deleted concurrently.
    """

    served: Served
    definition: ResourceDefinition
    settings: Settings
    bodies: dict[tuple[str, str], CompiledVersion]
    deletions_at_a_time: int

    @property
    def fields(self) -> FieldTracker:
        """What tracks field owners."""
        ...

    async def get(self, ctx: Context, version: str, resource_version: str = "") -> Item:
        """The object, at least as new as `resource_version`; without one, a consistent read. Raises NotFound."""
        ...

    async def list(self, ctx: Context, version: str, options: ListOptions) -> Listing:
        """The selected objects, or a page of them. Raises BadRequest, Expired, StorageReadError."""
        ...

    async def create(self, ctx: Context, version: str, body: DecodedBody, gate: Gate) -> MutationResult:
        """Create the object in `body`. Raises AlreadyExists, InvalidObject, and what admission refuses with."""
        ...

    async def update(self, ctx: Context, version: str, change: Change, gate: Gate) -> MutationResult:
        """Carry out `change` on the part of the object that the target's subresource names.

        Raises NotFound, Conflict, InvalidObject, and what admission refuses with.
        """
        ...

    async def delete(self, ctx: Context, version: str, options: DeleteOptions, gate: Gate) -> MutationResult:
        """Delete the object, or mark it as being deleted. Raises NotFound, Conflict."""
        ...

    async def list_bodies(self, items: Sequence[ListItem], version: str) -> Sequence[bytes]:
        """The bodies of a few items of `list`, in `version`. Raises the error of the first that can't be converted."""
        ...

    async def list_encoded(self, items: Sequence[ListItem], version: str, encode: Encode) -> Sequence[bytes]:
        """What `encode` makes of the bodies of a few items of `list`. Raises as `list_bodies`, and what it raises."""
        ...


class _Recipes:
    """The verbs that are the same for every resource: the recipes, over the storage of its objects."""

    object_storage: ObjectStorage
    create = recipe.create
    update = recipe.update
    delete = delete.delete

    def retire(self) -> None:
        """Break the reference cycle of a resource that isn't used any more, so that its memory is freed at once."""
        del self.object_storage


class StoredVerbs(_Recipes, StoredResource):
    """A resource whose objects are in the store."""

    deletions_at_a_time = 64

    def __init__(self, served: Served, watch_cache: WatchCache, settings: Settings, interner: Interner) -> None:
        super().__init__(served, watch_cache, settings, interner)
        self.object_storage = StoredObjectStorage(self)

    async def get(self, ctx: Context, version: str, resource_version: str = "") -> Item:
        entry = await read.get(self, ctx.target.namespace, ctx.target.name, resource_version)
        hides = self.definition.initializers and not getattr(ctx.options, "include_uninitialized", False)
        if hides and is_uninitialized(entry):
            raise NotFound(self.definition.group_resource, entry.name)
        return EntryItem(self, entry)

    async def list(self, ctx: Context, version: str, options: ListOptions) -> Listing:
        selection = await read.select(self, version, options)
        return await read.list_entries(self, ctx.target.namespace, options, selection)

    async def list_bodies(self, items: Sequence[ListItem], version: str) -> Sequence[bytes]:
        entries = cast("Sequence[Entry]", items)
        if version == self.definition.stored_as:
            return [entry.body for entry in entries]
        if not self.served.converter.waits:
            return [await self._list_body(entry, version) for entry in entries]
        bodies = []
        for body in await self.bodies_of(entries, version):
            if isinstance(body, StatusError):
                raise body
            bodies.append(body)
        return bodies

    async def list_encoded(self, items: Sequence[ListItem], version: str, encode: Encode) -> Sequence[bytes]:
        return await self.derived(cast("Sequence[Entry]", items), version, encode)

    async def _list_body(self, entry: Entry, version: str) -> bytes:
        body = self.body_now(entry, version) if not offload_bytes(entry.body) else None
        return await self.body(entry, version) if body is None else body


class VirtualVerbs(_Recipes, VirtualResource):
    """A resource whose objects a user's methods keep or compute."""

    deletions_at_a_time = 1

    def __init__(self, served: Served, settings: Settings) -> None:
        super().__init__(served, settings)
        self.object_storage = VirtualObjectStorage(self)

    async def list(self, ctx: Context, version: str, options: ListOptions) -> Listing:
        return await self.list_items(
            msgspec.structs.replace(ctx, target=replace(ctx.target, name="")), version, options
        )

    async def list_bodies(self, items: Sequence[ListItem], version: str) -> Sequence[bytes]:
        return [item.body for item in items]

    async def list_encoded(self, items: Sequence[ListItem], version: str, encode: Encode) -> Sequence[bytes]:
        workers = self.settings.workers
        return [await workers.go_on(offload_bytes(item.body), encode, item.body) for item in items]
