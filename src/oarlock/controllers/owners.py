"""Owner references: which object another belongs to, and with which it is deleted.

    secret = set_controller_reference(database, Secret(metadata=ObjectMeta(…)))

Objects are typed or trees. Source: controller-runtime ``controllerutil``; Kubernetes' documentation of owners.
"""

from __future__ import annotations

from typing import Any, TypeVar

from oarlock.controllers.keys import key_of, metadata_tree
from oarlock.meta.kinds import GroupVersion
from oarlock.schema.types.resources import declared
from oarlock.schema.types.shapes import OwnerReference

T = TypeVar("T")


class AlreadyOwned(Exception):
    """The object has another controller. Two controllers would undo each other's changes."""


def owner_reference(owner: Any, *, controller: bool = False) -> OwnerReference:
    """A reference to `owner`, an object that the server returned. Raises ValueError if it has no uid."""
    if isinstance(owner, dict):
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
    else:
        declaration = declared(type(owner))
        api_version, kind = declaration.gvk.api_version, declaration.kind
    metadata = metadata_tree(owner)
    if not metadata.get("uid") or not api_version or not kind:
        raise ValueError(f"{key_of(owner)} can't own: give an object as the server returned it, with its uid")
    marks = True if controller else None
    return OwnerReference(
        api_version=api_version,
        kind=kind,
        name=metadata["name"],
        uid=metadata["uid"],
        controller=marks,
        block_owner_deletion=marks,
    )


def set_controller_reference(owner: Any, obj: T) -> T:
    """Make `owner` the controller of `obj`, in place. Returns `obj`. The object is deleted with its owner.

    Raises AlreadyOwned if `obj` has another controller, and ValueError for an owner in another namespace.
    """
    existing = controller_of(obj)
    reference = owner_reference(owner, controller=True)
    if existing is not None and existing["uid"] != reference.uid:
        raise AlreadyOwned(f"{key_of(obj)} is controlled by {existing['kind']} {existing['name']} already")
    return _set(owner, obj, reference)


def set_owner_reference(owner: Any, obj: T) -> T:
    """Add `owner` to the owners of `obj`, in place. Returns `obj`. The object is deleted with its last owner."""
    return _set(owner, obj, owner_reference(owner))


def controller_of(obj: Any) -> dict[str, Any] | None:
    """The owner reference of the controller of `obj`, as a tree; None if it has none."""
    for reference in metadata_tree(obj).get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def same_kind(reference: dict[str, Any], api_version: str, kind: str) -> bool:
    """Whether an owner reference is to an object of this kind, in any version of its group."""
    group = GroupVersion.parse(reference.get("apiVersion") or "").group
    return reference.get("kind") == kind and group == GroupVersion.parse(api_version).group


def _set(owner: Any, obj: T, reference: OwnerReference) -> T:
    namespace, of = key_of(owner).namespace, key_of(obj).namespace
    if namespace and namespace != of:
        raise ValueError(
            f"{key_of(obj)} can't be owned by {key_of(owner)}: an owner is in the same namespace, or in none"
        )
    metadata: Any = obj.get("metadata") if isinstance(obj, dict) else getattr(obj, "metadata", None)
    if isinstance(metadata, dict):
        found = metadata.setdefault("ownerReferences", [])
        found[:] = [owner for owner in found if owner.get("uid") != reference.uid] + [_tree(reference)]
    else:
        others = [owner for owner in metadata.owner_references if owner.uid != reference.uid]
        metadata.owner_references = [*others, reference]
    return obj


def _tree(reference: OwnerReference) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }
    if reference.controller:
        tree |= {"controller": True, "blockOwnerDeletion": True}
    return tree
