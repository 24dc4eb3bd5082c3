"""`DependencyGraph`: the objects that have owners, by the uid of each owner.

It holds nothing of an object without owners, so its size is that of what may be collected. Must not know: clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from oarlock.client.informers.partial_objects import OwnerLink
from oarlock.controllers.keys import ObjectKey
from oarlock.meta.kinds import GroupResource

__all__ = ["DependencyGraph", "ObjectRef"]


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
