"""System metadata and managedFields: what the server sets, keeps or resets in metadata, whatever a client sent.

The only place that sets uid, creationTimestamp, generation, deletionTimestamp and deletionGracePeriodSeconds, in place;
time and random bytes come as arguments. managedFields are tracked by ``patch.apply``; who owns fields through another
version is compared in that version, with `FieldConversions`. Source: the API conventions' Metadata section. See also:
`recipe`, `delete`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from oarlock.codec import json
from oarlock.meta import times
from oarlock.meta.context import Context, Target
from oarlock.meta.errors import BadRequest, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.patch.apply.schema import object_type
from oarlock.patch.apply.tracking import FieldManager, FieldTracker, after_admission
from oarlock.patch.errors import ApplyError, UnknownVersion
from oarlock.registry.served import Served
from oarlock.registry.workers import Offload
from oarlock.registry.write.body import field_filters
from oarlock.schema.compiled import CompiledVersion
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.structural import nodes as structural

__all__ = [
    "MAX_MANAGER_BYTES",
    "ConversionFailed",
    "FieldConversions",
    "NeedsConversion",
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
    "tracker_of",
    "uuid4",
    "wipe_system",
    "with_valid_owners",
    "writer_of",
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


R = TypeVar("R")

_Known = dict[tuple[bytes, str], "Tree | StatusError"]


class ConversionFailed(ApplyError):
    """The converter refused; `status` is its answer."""

    def __init__(self, status: StatusError) -> None:
        super().__init__(str(status))
        self.status = status


class NeedsConversion(Exception):
    """`tree` is needed in `to_api_version`, and the conversion has to be awaited, which `then` does."""

    def __init__(self, conversions: FieldConversions, tree: Tree, to_api_version: str) -> None:
        super().__init__(f"{to_api_version} of an object must be awaited")
        self.conversions = conversions
        self.tree = tree
        self.to_api_version = to_api_version

    async def then(self, call: Callable[[], R], along: Iterable[Tree], offload: Offload) -> R:
        """Run `call` with the conversions it needs. It must be pure: it runs again for each conversion.

        `along` are trees that will be needed in the same versions and are converted with the first. `offload` runs
        `call`.
        """
        known: _Known = {}
        trees = {_key(tree): tree for tree in map(_bare, along)}
        needed = self
        while True:
            bare = _bare(needed.tree)
            trees[_key(bare)] = bare
            await self.conversions.learn(known, trees, needed)
            try:
                return await offload(self.conversions.knowing, known, call)
            except NeedsConversion as another:
                needed = another


class _Here(threading.local):
    """The known conversions of the call that runs in this thread."""

    def __init__(self) -> None:
        self.known: _Known = {}


class FieldConversions:
    """The ``convert`` function of a `FieldTracker`. `copy` makes the copies that a converter may change."""

    def __init__(self, served: Served, copy: Callable[[Tree], Tree]) -> None:
        self._served = served
        self._versions = {served.definition.api_version(v.name): v.name for v in served.definition.versions}
        self._copy = copy
        self._here = _Here()

    def __call__(self, tree: Tree, from_api_version: str, to_api_version: str) -> Tree:
        """The tree in another version. Raises UnknownVersion, NeedsConversion, ConversionFailed."""
        versions, served = self._versions, self._served
        if from_api_version not in versions or to_api_version not in versions:
            raise UnknownVersion(f"{to_api_version} is no version of {served.definition.group_resource}")
        try:
            made = served.converter.convert_now(
                [self._copy(tree)], versions[from_api_version], versions[to_api_version]
            )
        except Exception:
            return tree  # what can't be converted, such as part of an object, keeps its field names
        if made is not None:
            made[0]["apiVersion"] = to_api_version
            return made[0]
        found = self._here.known.get((_key(_bare({**tree, "apiVersion": from_api_version})), to_api_version))
        if found is None:
            raise NeedsConversion(self, {**tree, "apiVersion": from_api_version}, to_api_version)
        if isinstance(found, StatusError):
            raise ConversionFailed(found)
        return found

    def knowing(self, known: _Known, call: Callable[[], R]) -> R:
        """Run `call` with these known conversions."""
        before, self._here.known = self._here.known, known
        try:
            return call()
        finally:
            self._here.known = before

    async def learn(self, known: _Known, trees: dict[bytes, Tree], needed: NeedsConversion) -> None:
        """Convert the tree that `needed` asks for, and all of `trees` in the same version, and add them to `known`."""
        source, to = needed.tree["apiVersion"], needed.to_api_version
        wanted = {
            key: tree for key, tree in trees.items() if tree.get("apiVersion") == source and (key, to) not in known
        }
        copies = [self._copy(tree) for tree in wanted.values()]
        for copy in copies:
            copy.setdefault("kind", self._served.definition.names.kind)
            copy.setdefault("metadata", {})
        try:
            made = await self._served.convert(copies, self._versions[source], self._versions[to])
        except StatusError as error:
            known.update(dict.fromkeys(((key, to) for key in wanted), error))
        else:
            known.update({(key, to): tree for key, tree in zip(wanted, made, strict=True)})


def _bare(tree: Tree) -> Tree:
    """The tree without managedFields, which are the same in every version."""
    metadata = tree.get("metadata")
    if type(metadata) is not dict or "managedFields" not in metadata:
        return tree
    return {**tree, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _key(tree: Tree) -> bytes:
    return json.encode_canonical(tree)


MAX_MANAGER_BYTES = 128


def tracker_of(served: Served, compiled: Mapping[str, CompiledVersion], copy: Callable[[Tree], Tree]) -> FieldTracker:
    """The `FieldTracker` of a resource; `compiled` are its versions.

    `copy` makes the copies that conversion may change. With a converter that has to wait, its methods raise
    `field_conversions.NeedsConversion`. An object of a virtual resource without managedFields has no owners, so no
    apply to it conflicts.
    """
    definition = served.definition
    versions = {definition.api_version(version.name): version.name for version in definition.versions}
    schemas = {definition.api_version(v.name): structural.parse(v.schema) for v in definition.versions}
    types = {api_version: object_type(schema) for api_version, schema in schemas.items()}
    blanks = {
        api_version: _blank(compiled[versions[api_version]], schema)
        for api_version, schema in schemas.items()
        if definition.typed
    }
    stored = served.virtual is None  # objects of a virtual resource may come without managedFields every time
    return FieldTracker(
        types, FieldConversions(served, copy), field_filters(definition), blanks, everything_tracked=stored
    )


def _blank(compiled: CompiledVersion, schema: structural.Node) -> Tree:
    """An object of a declared type before anything is set: its nested objects, without values.

    In Go, a struct field that isn't a pointer is always there; here the equivalent is a nested object that is required
    or has a default.
    """
    tree: Tree = {"metadata": {}, **_required(schema)}
    compiled.default(tree)
    del tree["metadata"]
    return _objects(tree)


def _required(node: structural.Node) -> Tree:
    """The required nested objects of an object, empty except for required objects of their own."""
    inside = ((name, node.properties[name]) for name in node.constraints.required if name in node.properties)
    return {name: _required(child) for name, child in inside if child.properties and not child.nullable}


def _objects(tree: Tree) -> Tree:
    return {name: _objects(value) for name, value in tree.items() if isinstance(value, dict)}


def writer_of(ctx: Context) -> FieldManager:
    """The field manager: the request's fieldManager, else the first word of its user agent."""
    manager = getattr(ctx.options, "field_manager", "")
    if not manager:
        manager = ctx.user_agent.partition("/")[0]
        if len(manager) * 4 > MAX_MANAGER_BYTES or not manager.isprintable():
            manager = _printable(manager)
    target = ctx.target
    return _writer(manager, target.group, target.version, target.subresource, int(ctx.clock.now() // 1))


@lru_cache(maxsize=256)
def _writer(manager: str, group: str, version: str, subresource: str, second: int) -> FieldManager:
    return FieldManager(manager, f"{group}/{version}" if group else version, times.rfc3339(second), subresource)


def _printable(name: str) -> str:
    """The printable characters of a manager's name, as far as there is room for them."""
    name = "".join(char for char in name if char.isprintable())
    if len(name) * 4 > MAX_MANAGER_BYTES:
        name = name.encode()[:MAX_MANAGER_BYTES].decode(errors="ignore")
    return name


def with_valid_owners(before: Tree, after: Tree, ctx: Context) -> Tree:
    """The object after mutating admission. If admission broke managedFields, those of `before`, and a warning."""
    if after is before:
        return before
    tree, warning = after_admission(before, after)
    if warning is not None:
        ctx.warn(warning)
    return tree
