"""`Acting`: the writes of garbage collection, each on the very revision of an object that was looked at.

Who loses a race gets a Conflict and looks again. See also: `collector`, which decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from oarlock.apps.controllers.served_kinds import ServedKind
from oarlock.client.client import Client
from oarlock.client.informers.partial_objects import OwnerLink, PartialMetadata, PartialObject, partial_object
from oarlock.client.objects import metadata_of
from oarlock.codec import json
from oarlock.controllers.keys import ObjectKey
from oarlock.meta.errors import NotFound
from oarlock.meta.kinds import GroupResource


class ObjectRef(NamedTuple):
    """Where an object is; the namespace is empty for one of the cluster."""

    resource: GroupResource
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        """The place as a work queue takes it: its name says the resource too."""
        return ObjectKey(self.namespace, f"{self.resource.group}/{self.resource.resource}/{self.name}")

    @classmethod
    def of_key(cls, key: ObjectKey) -> ObjectRef:
        group, resource, name = key.name.split("/", 2)
        return cls(GroupResource(group, resource), key.namespace, name)


class DependencyGraph:
    """The graph of owners and dependents."""

    def __init__(self) -> None:
        self._owners: dict[ObjectRef, tuple[OwnerLink, ...]] = {}
        self._dependents: dict[str, dict[ObjectRef, OwnerLink]] = {}

    def __len__(self) -> int:
        """How many objects have owners."""
        return len(self._owners)

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(tuple(self._owners))

    def owners(self, place: ObjectRef) -> tuple[OwnerLink, ...]:
        """The owners of an object, as it was put."""
        return self._owners.get(place, ())

    def put(self, place: ObjectRef, owners: tuple[OwnerLink, ...]) -> None:
        """Note the owners that an object has now."""
        self.remove(place)
        if owners:
            self._owners[place] = tuple(self._add(place, link) for link in owners)

    def _add(self, place: ObjectRef, link: OwnerLink) -> OwnerLink:
        siblings = self._dependents.setdefault(link.uid, {})
        # Most references to an owner are alike, and share one value.
        known = next(iter(siblings.values()), link)
        siblings[place] = link = known if known == link else link
        return link

    def remove(self, place: ObjectRef) -> tuple[OwnerLink, ...]:
        """Forget an object; returns who its owners were."""
        owners = self._owners.pop(place, ())
        for link in owners:
            siblings = self._dependents.get(link.uid)
            if siblings is not None:
                siblings.pop(place, None)
                if not siblings:
                    del self._dependents[link.uid]
        return owners

    def dependents(self, uid: str) -> tuple[ObjectRef, ...]:
        """The objects that have an owner with this uid."""
        return tuple(self._dependents.get(uid, ()))

    def has_dependents(self, uid: str) -> bool:
        return uid in self._dependents

    def blocks(self, uid: str) -> bool:
        """Whether an object is left that an owner has to wait for that is deleted in the foreground."""
        return any(link.block_owner_deletion for link in self._dependents.get(uid, {}).values())


_MERGE = {"content-type": "application/merge-patch+json"}


class Acting:
    """Raises Conflict when an object has changed, StatusError and TransportError; what is gone is no error."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def read(self, kind: ServedKind, namespace: str, name: str) -> PartialMetadata | None:
        """An object as it is on the server now."""
        try:
            tree = await self._client.request("GET", kind.ref.object(name, namespace))
        except NotFound:
            return None
        metadata = metadata_of(tree) if isinstance(tree, dict) else {}
        found: PartialObject | None = partial_object(json.encode({"metadata": metadata}))
        return None if found is None else found.metadata

    async def delete(self, kind: ServedKind, metadata: PartialMetadata, policy: str) -> None:
        """Delete an object; `policy` is what becomes of its dependents."""
        preconditions = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        body = {"propagationPolicy": policy, "preconditions": preconditions}
        try:
            await self._client.request("DELETE", kind.ref.object(metadata.name, metadata.namespace), body)
        except NotFound:
            pass  # somebody was faster

    async def disown(self, kind: ServedKind, metadata: PartialMetadata, uids: set[str]) -> None:
        """Take references to these owners off an object."""
        links = [link.tree() for link in metadata.owner_references or () if link.uid not in uids]
        await self._patch(kind, metadata, {"ownerReferences": links or None})

    async def unblock(self, kind: ServedKind, metadata: PartialMetadata) -> None:
        """Let no owner wait for an object."""
        links = [{**link.tree(), "blockOwnerDeletion": False} for link in metadata.owner_references or ()]
        await self._patch(kind, metadata, {"ownerReferences": links})

    async def remove_finalizer(self, kind: ServedKind, metadata: PartialMetadata, finalizer: str) -> None:
        left: Iterable[str] = (name for name in metadata.finalizers or () if name != finalizer)
        await self._patch(kind, metadata, {"finalizers": [*left] or None})

    async def _patch(self, kind: ServedKind, metadata: PartialMetadata, change: dict[str, Any]) -> None:
        seen = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        path = kind.ref.object(metadata.name, metadata.namespace)
        try:
            await self._client.request("PATCH", path, {"metadata": {**seen, **change}}, headers=_MERGE)
        except NotFound:
            pass  # it is gone
