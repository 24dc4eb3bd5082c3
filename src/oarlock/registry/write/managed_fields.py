"""Updates managedFields on every write.

Runs between settling the body and mutating admission, on the live and the new object in the request version;
server-side apply does this itself while it merges. The rules are `patch.apply`'s; here they are given a resource's
types, its conversion, and the field manager.
Must not know: HTTP, beyond the user agent's name. Source: KEP-555.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from oarlock.meta import times
from oarlock.meta.context import Context
from oarlock.meta.json_trees import Tree
from oarlock.patch.apply.schema import object_type
from oarlock.patch.apply.tracking import FieldManager, FieldTracker, after_admission
from oarlock.registry.served import Served
from oarlock.registry.write.field_conversions import FieldConversions
from oarlock.registry.write.object_parts import field_filters
from oarlock.schema.compiled import CompiledVersion
from oarlock.schema.structural import nodes as structural

__all__ = ["MAX_MANAGER_BYTES", "tracker_of", "with_valid_owners", "writer_of"]

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
    manager = getattr(ctx.options, "field_manager", "") or _manager_of(ctx.user_agent)
    target = ctx.target
    return _writer(manager, target.group, target.version, target.subresource, int(ctx.clock.now() // 1))


@lru_cache(maxsize=256)
def _writer(manager: str, group: str, version: str, subresource: str, second: int) -> FieldManager:
    return FieldManager(manager, f"{group}/{version}" if group else version, times.rfc3339(second), subresource)


def _manager_of(user_agent: str) -> str:
    name = user_agent.partition("/")[0]
    if not name.isprintable():
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
