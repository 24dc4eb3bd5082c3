"""System metadata: the fields the server sets, keeps or resets, whatever a client sent.

The only place that sets uid, creationTimestamp, generation, deletionTimestamp and deletionGracePeriodSeconds. Works on
metadata trees in place; time and random bytes come as arguments. Source: the API conventions' Metadata section. See
also: `create`, `update`, `delete`.
"""

from __future__ import annotations

from typing import Any

from oarlock.meta import times
from oarlock.meta.context import Context, Target
from oarlock.meta.errors import BadRequest, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.schema.definition import ResourceDefinition

__all__ = [
    "check_place",
    "check_same_place",
    "check_unversioned",
    "differ",
    "fill_namespace",
    "fill_new",
    "is_deleting",
    "is_held",
    "keep_system",
    "mark_deleted",
    "shorten_grace",
    "uuid4",
    "wipe_system",
]

_OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"

_SYSTEM = frozenset(("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"))


def uuid4(random: bytes) -> str:
    """A version 4 UUID of 16 random bytes (RFC 9562)."""
    h = random.hex()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{'89ab'[random[8] & 3]}{h[17:20]}-{h[20:32]}"


def fill_namespace(metadata: Tree, namespace: str, *, namespaced: bool) -> None:
    """The namespace is that of the URL: an empty one is filled in, another refused. Cluster-scoped: none."""
    if not namespaced:
        metadata.pop("namespace", None)
        return
    given = metadata.get("namespace")
    if given and given != namespace:
        raise BadRequest(_OTHER_NAMESPACE)
    metadata["namespace"] = namespace


def check_place(metadata: Tree, target: Target, *, namespaced: bool) -> None:
    """Check that the object in the body of a write is the one in the URL. An empty namespace is filled in."""
    name = metadata.get("name")
    if not name:
        raise BadRequest(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if not namespaced:
        metadata.pop("namespace", None)
    elif (metadata.get("namespace") or target.namespace) != target.namespace:
        raise BadRequest(_OTHER_NAMESPACE)
    else:
        metadata["namespace"] = target.namespace


def check_same_place(metadata: Tree, name: str | None, namespace: str | None) -> None:
    """Check that admission has left an object where it was. What it has taken away is put back."""
    given = metadata.get("namespace")
    if given and namespace and given != namespace:
        raise BadRequest(_OTHER_NAMESPACE)
    given = metadata.get("name")
    if given and name and given != name:
        raise BadRequest(f"the name of the object ({given}) does not match the name on the URL ({name})")


def wipe_system(metadata: Tree) -> None:
    """Remove the fields that only the server sets, but resourceVersion: see `check_unversioned`."""
    for name in _SYSTEM.intersection(metadata):
        del metadata[name]


def check_unversioned(metadata: Tree) -> None:
    """Remove a new object's resourceVersion, before it is kept. Raises StatusError for one that the store could have.

    As in Kubernetes that is a 500, and nobody is told of it in a dry run, nor for an object that is invalid.
    """
    version = metadata.pop("resourceVersion", None)
    if version and version.isascii() and version.isdecimal() and _is_revision(version.lstrip("0")):
        raise StatusError("resourceVersion should not be set on objects to be created")


def _is_revision(digits: str) -> bool:
    return 0 < len(digits) <= 20 and int(digits) < 2**64


def fill_new(metadata: Tree, ctx: Context, definition: ResourceDefinition, random: bytes) -> None:
    """Set the system metadata of a new object; what the client sent of it is dropped."""
    wipe_system(metadata)
    metadata["uid"] = uuid4(random)
    metadata["creationTimestamp"] = times.rfc3339(ctx.clock.now())
    if definition.generation:
        metadata["generation"] = 1


def keep_system(new: Tree, old: Tree) -> None:
    """On an update, take the system metadata from the live object.

    A deletionTimestamp is left as sent: validation refuses a change to it.
    """
    for name in ("creationTimestamp", "generation"):
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)
    if "deletionTimestamp" in old:
        new["deletionTimestamp"] = old["deletionTimestamp"]
    if not new.get("uid") and "uid" in old:
        new["uid"] = old["uid"]
    if new.get("deletionGracePeriodSeconds") is None and "deletionGracePeriodSeconds" in old:
        new["deletionGracePeriodSeconds"] = old["deletionGracePeriodSeconds"]
    new.pop("selfLink", None)


def is_deleting(metadata: Tree) -> bool:
    return bool(metadata.get("deletionTimestamp"))


def is_held(definition: ResourceDefinition, tree: Tree) -> bool:
    """Whether finalizers keep an object that is being deleted."""
    if tree["metadata"].get("finalizers"):
        return True
    here: Any = tree
    for name in definition.finalizers_at.split(".")[1:]:
        here = here.get(name) if isinstance(here, dict) else None
    return bool(here) and here is not tree


def mark_deleted(metadata: Tree, ctx: Context, *, grace: bool = True, grace_s: int = 0) -> None:
    """Set the deletionTimestamp: the object is removed with its last finalizer.

    With `grace`, generation is incremented, and the deletionGracePeriodSeconds are set: the object has so many seconds
    to end, until its timestamp. Without it a controller of its own takes the object apart.
    """
    metadata["deletionTimestamp"] = times.rfc3339(ctx.clock.now() + times.go_seconds(grace_s))
    if not grace:
        return
    metadata["deletionGracePeriodSeconds"] = grace_s
    if metadata.get("generation"):
        metadata["generation"] += 1


def shorten_grace(metadata: Tree, grace_s: int) -> None:
    """Give an object that is being deleted fewer seconds to end."""
    begins = times.parse_rfc3339(metadata["deletionTimestamp"]) - times.go_seconds(
        metadata["deletionGracePeriodSeconds"]
    )
    metadata["deletionTimestamp"] = times.rfc3339(begins + times.go_seconds(grace_s))
    metadata["deletionGracePeriodSeconds"] = grace_s


def differ(definition: ResourceDefinition, version: str, new: Tree, old: Tree) -> bool:
    """Whether generation must be incremented: anything but metadata, and status if it is a subresource, has changed."""
    left_out = {"metadata", "apiVersion", "kind"}
    if definition.version(version).status:
        left_out.add("status")
    return any(new.get(key) != old.get(key) for key in (new.keys() | old.keys()) - left_out)
