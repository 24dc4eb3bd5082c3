"""The system's part of metadata: what the server sets, keeps and takes back, whoever asks otherwise.

The only place that sets uid, creationTimestamp, generation, deletionTimestamp and
deletionGracePeriodSeconds. Works on metadata trees in place; time and random bytes come as arguments.
Source: the API conventions' Metadata section. Next: `create`, `update`, `delete`.
"""

from __future__ import annotations

from oarlock.meta import times
from oarlock.meta.context import Context, Target
from oarlock.meta.errors import BadRequest
from oarlock.registry.served import Tree
from oarlock.schema.definition import ResourceDefinition

__all__ = [
    "check_place",
    "differ",
    "fill_new",
    "is_deleting",
    "keep_status",
    "keep_system",
    "mark_deleted",
    "only_status",
    "settle_namespace",
    "uuid4",
    "wipe_system",
]

_SYSTEM = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion")


def uuid4(random: bytes) -> str:
    """A version 4 UUID of 16 random bytes (RFC 9562)."""
    h = random.hex()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{'89ab'[random[8] & 3]}{h[17:20]}-{h[20:32]}"


def settle_namespace(metadata: Tree, namespace: str, *, namespaced: bool) -> None:
    """The URL decides: an empty namespace is filled in, another one is refused, a cluster-wide object has none."""
    if not namespaced:
        metadata.pop("namespace", None)
        return
    given = metadata.get("namespace")
    if given and given != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace


def check_place(metadata: Tree, target: Target, *, namespaced: bool) -> None:
    """The object an update is given must be the one the URL names; an empty namespace is filled in."""
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
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    else:
        metadata["namespace"] = target.namespace


def wipe_system(metadata: Tree) -> None:
    """Drop what only the server sets. Raises BadRequest for a resourceVersion: what is created has none yet."""
    version = metadata.get("resourceVersion")
    if version not in (None, "", "0"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    for name in _SYSTEM:
        metadata.pop(name, None)


def fill_new(metadata: Tree, ctx: Context, definition: ResourceDefinition, random: bytes) -> None:
    """Metadata of an object about to be created: whatever the client sent of the system's fields is dropped."""
    wipe_system(metadata)
    metadata["uid"] = uuid4(random)
    metadata["creationTimestamp"] = times.rfc3339(ctx.clock.now())
    if definition.generation:
        metadata["generation"] = 1


def keep_system(new: Tree, old: Tree) -> None:
    """Metadata of an object about to be updated: the system's fields come from the live object.

    A deletionTimestamp stays as it is, and validation refuses one that a client sets.
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


def mark_deleted(metadata: Tree, ctx: Context) -> None:
    """The object is to go once its finalizers are done; generation counts the mark as a change."""
    metadata["deletionTimestamp"] = times.rfc3339(ctx.clock.now())
    metadata["deletionGracePeriodSeconds"] = 0
    if metadata.get("generation"):
        metadata["generation"] += 1


def keep_status(new: Tree, live: Tree) -> Tree:
    """The main resource can't change the status."""
    new.pop("status", None)
    if "status" in live:
        new["status"] = live["status"]
    return new


def only_status(new: Tree, live: Tree) -> Tree:
    """``/status`` changes the status, and of metadata only managedFields and what preconditions need."""
    metadata = {**live["metadata"]}
    metadata.pop("resourceVersion", None)
    for name in ("resourceVersion", "managedFields", "uid"):
        if name in new["metadata"]:
            metadata[name] = new["metadata"][name]
    kept = {**live, "metadata": metadata}
    kept.pop("status", None)
    if "status" in new:
        kept["status"] = new["status"]
    return kept


def differ(definition: ResourceDefinition, version: str, new: Tree, old: Tree) -> bool:
    """Whether anything but metadata, and status where that is a subresource, is different: what generation counts."""
    left_out = {"metadata", "apiVersion", "kind"}
    if definition.version(version).status:
        left_out.add("status")
    return any(new.get(key) != old.get(key) for key in (new.keys() | old.keys()) - left_out)
