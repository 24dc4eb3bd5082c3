"""A write in progress (`WriteRequest`), and what its recipe asks: the `ObjectStorage`, the `Gate` of admission.

A `HookedRequest` is the part of it that needs no storage: an object in a version, with the code that its resource has.

A stored resource's storage is the store with its cache, a virtual resource's are the user's methods. The steps between
are the same for both.
Must not know: the steps. See also: `recipe` and `delete`; `stored.object_storage`, `virtual.object_storage`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from oarlock.meta.context import Context
from oarlock.meta.errors import InvalidObject
from oarlock.meta.fielderrors import Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind, GroupVersionKind
from oarlock.meta.options_parse import UNSAFE
from oarlock.patch.apply.tracking import FieldTracker
from oarlock.registry.conversions import copy_tree
from oarlock.registry.read.recipes import MutationResult
from oarlock.registry.served import Claims, Served, Settings
from oarlock.registry.workers import Offload, ensure_task
from oarlock.registry.write.body import DecodedBody, ObjectPart, Parts, normalize_body
from oarlock.registry.write.metadata import NeedsConversion, check_same_place, with_valid_owners, writer_of
from oarlock.schema.compiled import CompiledVersion
from oarlock.schema.definition import ResourceDefinition
from oarlock.storage.cache.entry import Entry

__all__ = [
    "NOT_AT_HAND",
    "AdmissionRequest",
    "CheckedObject",
    "Gate",
    "HookedRequest",
    "HookedResource",
    "Hub",
    "LiveObject",
    "ObjectStorage",
    "Precondition",
    "Reviewers",
    "WritableResource",
    "WriteRequest",
    "readable_after_all",
    "tracked",
]


class Hub(NamedTuple):
    """The new and the old object in the hub version; None if there is none, or if it wasn't converted."""

    new: Tree | None
    old: Tree | None


NOT_AT_HAND: Final = Hub(None, None)


class AdmissionRequest(NamedTuple):
    """A request under admission review, without its objects.

    `operation` is CREATE, UPDATE, DELETE or CONNECT. `body_kind` is set if the object under review is the body of a
    subresource and not an object of `served`.
    """

    ctx: Context
    operation: str
    served: Served
    body_kind: GroupVersionKind | None = None


class Reviewers(Protocol):
    """The admission plugins that are interested in one request. One that waits is called in a task.

    `reserves` says whether one of them takes something for the object, by `reserve`.
    Trees are in the request version. `offload` runs all but the plugins' own code, in a thread for a large object.
    """

    @property
    def reserves(self) -> bool: ...

    async def mutate(self, new: Tree | None, old: Tree | None, offload: Offload) -> Tree | None:
        """Mutating admission: returns `new`, or another tree if a plugin has changed it.

        Called again when a write is retried after a conflict. Raises `errors.StatusError` to refuse.
        """
        ...

    async def validate(self, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND) -> None:
        """Validating admission: looks at the final object and may refuse it. Changes nothing.

        `hub` has both objects in the hub version, if they were converted for the resource's own hooks.
        """
        ...

    async def reserve(self, new: Tree, old: Tree | None, claims: Claims) -> None:
        """Take the shared resources that the final, validated object needs, and record them in `claims`.

        Raises `errors.StatusError` when there isn't enough.
        """
        ...


class Gate(Protocol):
    """Admission and secondary authorization of a server. The recipes are handed one with each request."""

    def reviewers(self, request: AdmissionRequest) -> Reviewers | None:
        """The plugins that are interested in `request` now; None if there are none, so that no trees need be made."""
        ...

    async def may(self, ctx: Context, verb: str) -> None:
        """Check that the user may also use another verb (``create`` for a PUT that creates). Raises Forbidden."""
        ...


T = TypeVar("T")

_decode = msgspec.json.Decoder().decode


class LiveObject(Struct, frozen=True):
    """The object before the write.

    `tree` is in the request version and must not be changed; `data` is its JSON, if at hand. `offload_bytes` is its
    `workers.offload_bytes`. `whole` is False when the object can't be converted and `tree` has only what could be read.
    `entry` is the cache's, of a stored object; `hub` is a virtual object in the hub version. `unread` are top-level
    fields of which `tree` has only what can be read (see `invalid_stored_object`).
    """

    tree: Tree
    data: bytes = b""
    offload_bytes: int = 0
    whole: bool = True
    entry: Entry | None = None
    hub: Tree | None = None
    unread: frozenset[str] = frozenset()

    def copy(self) -> Tree:
        """The object as a tree that may be changed."""
        if not self.data:
            return copy_tree(self.tree)
        tree: Tree = _decode(self.data)
        return tree


class CheckedObject(Struct, frozen=True):
    """An object that hooks, validation and admission have passed, in the request version.

    `hub` is the same in the hub version, if it was converted.
    """

    tree: Tree
    hub: Tree | None


class Precondition(Struct, frozen=True):
    """The resourceVersion that the live object must have; empty if any. `replaces` says that a PUT names it.

    A PATCH may be carried out on a newer object; a PUT must not.
    """

    version: str
    replaces: bool


class ObjectStorage(Protocol):
    """Where the objects of a resource are.

    `keeps_metadata` says that objects come back with all the metadata they were put with. A PATCH is tried at most
    `attempts` times while other writes come first.
    """

    keeps_metadata: bool
    attempts: int

    def key(self, write: WriteRequest) -> str:
        """The key of the object in the store; empty if it has none."""
        ...

    async def get(self, write: WriteRequest, *, replaces: bool) -> LiveObject | None:
        """The object that the write names; None if objects can't be read. Raises NotFound.

        `replaces` says that the write needs nothing of it but its metadata.
        """
        ...

    async def find(self, write: WriteRequest) -> LiveObject | None:
        """The same for a DELETE, which needs its metadata, and the tree as far as it can be read for admission."""
        ...

    async def live_hub(self, write: WriteRequest, live: LiveObject) -> Tree:
        """The live object in the hub version, as far as it can be read. It must not be changed."""
        ...

    async def create(self, write: WriteRequest, made: CheckedObject) -> MutationResult:
        """Keep a new object. Raises AlreadyExists."""
        ...

    async def replace(
        self, write: WriteRequest, made: CheckedObject, live: LiveObject | None, precondition: Precondition
    ) -> MutationResult | None:
        """Keep a changed object, if it has changed. None when another write came first.

        Raises Conflict if a PUT must not be carried out on the newer object.
        """
        ...

    async def delete(
        self, write: WriteRequest, live: LiveObject | None, finalizers: list[str]
    ) -> MutationResult | None:
        """Remove the object, or mark it as being deleted if it is to have `finalizers`.

        None when another write came first.
        """
        ...

    async def delete_unreadable(self, write: WriteRequest) -> MutationResult | None:
        """Remove an object of which nothing can be read; None when another write came first.

        Raises NotFound, and InvalidObject for any other object.
        """
        ...


class HookedResource(Protocol):
    """What running a resource's code needs of it. `compiled` is by version."""

    served: Served
    definition: ResourceDefinition
    settings: Settings
    compiled: dict[str, CompiledVersion]

    def compile(self, version: str) -> None:
        """Compile what waits for the first use of a version. For a thread."""
        ...


class WritableResource(HookedResource, Protocol):
    """What recipes need of a resource. `parts` are by version."""

    parts: dict[str, Parts]
    object_storage: ObjectStorage

    @property
    def fields(self) -> FieldTracker:
        """The tracker of managedFields."""
        ...


class HookedRequest:
    """An object of `resource` in a version, on which the resource's code is run: hooks, conversion, admission.

    `reviewers` are the admission plugins to ask, None if there are none. It stays the same through all attempts of a
    write, except for `offload_bytes`.
    """

    __slots__ = (
        "compiled",
        "ctx",
        "definition",
        "hooks",
        "offload_bytes",
        "resource",
        "reviewers",
        "served",
        "version",
    )

    def __init__(self, resource: HookedResource, ctx: Context, version: str, gate: Gate, operation: str) -> None:
        self.resource: HookedResource = resource
        self.served = resource.served
        self.definition = resource.definition
        subresource, hooks = ctx.target.subresource, resource.served.hooks
        self.hooks = hooks.parts.get(subresource, hooks) if subresource else hooks
        self.compiled = resource.compiled[version]
        self.ctx = ctx
        self.version = version
        self.reviewers: Reviewers | None = gate.reviewers(AdmissionRequest(ctx, operation, resource.served))
        self.offload_bytes = 0
        """The `workers.offload_bytes` of the object; 0 if all steps are done on the event loop."""

    def set_offload_bytes(self, size: int) -> None:
        """Do further steps for an object of this `workers.offload_bytes`."""
        if size and not self.offload_bytes and self.served.converter.threadsafe:
            self.offload_bytes = size

    async def offload(self, step: Callable[..., T], /, *args: Any) -> T:
        """Run a pure step, in a thread if the object is large."""
        if not self.offload_bytes:
            return step(*args)
        return await self.resource.settings.workers.go_on(self.offload_bytes, step, *args)

    async def convert(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        """`tree` in another version; it must not be used afterwards."""
        if from_version == to_version:
            return tree
        conversions = self.served.conversions
        if self.offload_bytes:
            made = await self.offload(conversions.now, [tree], from_version, to_version)
        else:
            made = conversions.now([tree], from_version, to_version)
        return made[0] if made is not None else await conversions.wait_for(tree, from_version, to_version)

    async def normalize(self, body: DecodedBody) -> None:
        """Prune, default and type-check the body (`body.normalize_body`)."""
        if self.compiled.waits:
            await self.resource.settings.workers.offload(self.resource.compile, self.version)
        if self.offload_bytes:
            await self.offload(normalize_body, body, self.compiled, self.hooks, self.ctx)
        else:
            normalize_body(body, self.compiled, self.hooks, self.ctx)

    async def mutated(self, reviewers: Reviewers, new: Tree, old: Tree | None, body: DecodedBody) -> Tree:
        """The object after mutating admission, normalized again. Raises BadRequest for one with another place."""
        changed = await reviewers.mutate(new, old, self.offload)
        if changed is None or changed is new:
            return new
        place = {name: new["metadata"].get(name) for name in ("name", "namespace")}
        after = DecodedBody(changed, body.wording, derived=True)
        await self.normalize(after)
        metadata = after.tree["metadata"]
        check_same_place(metadata, **place)
        for name, value in place.items():
            metadata.pop(name, None)
            if value is not None:
                metadata[name] = value
        return with_valid_owners(new, after.tree, self.ctx)


class WriteRequest(HookedRequest):
    """One write. `part` is what it may change."""

    __slots__ = ("claims", "gate", "grace_s", "object_storage", "part")

    resource: WritableResource

    def __init__(self, resource: WritableResource, ctx: Context, version: str, gate: Gate, operation: str) -> None:
        super().__init__(resource, ctx, version, gate, operation)
        self.object_storage = resource.object_storage
        self.gate = gate
        self.part: ObjectPart = resource.parts[version][ctx.target.subresource]
        self.claims = Claims(dry_run=ctx.dry_run)
        self.grace_s = 0
        """How many seconds a deleted object has until it is removed."""

    async def reserved(self, new: Tree, old: Tree | None, body: DecodedBody) -> Tree:
        """The object with what it takes of something shared, normalized again. Raises what `Hooks.reserve` raises."""
        reserve = self.hooks.reserve
        if reserve is None or self.ctx.target.subresource:
            return new
        await ensure_task()
        after = DecodedBody(await reserve(new, old, self.claims), body.wording, derived=True)
        await self.normalize(after)
        return after.tree


def readable_after_all(write: WriteRequest) -> InvalidObject:
    """The error for an `ObjectStorage.delete_unreadable` of an object that can be read."""
    kind = GroupKind(write.definition.group, write.definition.names.plural)
    why = "is exclusively used to delete corrupt object(s), try again by removing this option"
    return InvalidObject(kind, write.ctx.target.name, [Invalid(UNSAFE, True, why)])


async def tracked(write: WriteRequest, live: Tree | None, new: Tree) -> Tree:
    """`new` with updated managedFields; `live` is None on a create.

    Waits only for a converter that has to wait, if fields are owned through another version.
    """
    update, writer = write.resource.fields.update, writer_of(write.ctx)
    try:
        return update(live, new, writer) if not write.offload_bytes else await write.offload(update, live, new, writer)
    except NeedsConversion as needed:
        along = [new] if live is None else [live, new]
        return await needed.then(lambda: update(live, new, writer), along, write.offload)
