"""Is what is about to be stored readable in every version? An object that isn't would spoil every list of it.

A write is refused at the door, by whatever its conversion says. What a write converts in any case is enough; only
what nobody has tried is tried here, and what comes of it (the values of selectable fields, the answer) is kept.
Must not know: how the object came about. Next: `steps`, which comes here last.
"""

from __future__ import annotations

from typing import NamedTuple

from oarlock.meta.errors import StatusError
from oarlock.registry.served import Tree
from oarlock.registry.stored_resource import StoredResource
from oarlock.schema.definition import VersionDefinition
from oarlock.storage.cache.entry import Entry

__all__ = ["Live", "Ready", "ready"]


class Live(NamedTuple):
    """The object as it is before the write: its entry, and a tree in the request version that nobody changes.

    `whole` says that the tree is all of it, and not what could be read of an object that can't be converted.
    """

    entry: Entry
    tree: Tree
    whole: bool = True


class Ready(NamedTuple):
    """An object that may be stored, in the stored and in the request version.

    `fields` are the values of its selectable fields, and `answer` is what will be read of it in the request version;
    None where that hasn't been found out.
    """

    stored: Tree
    shown: Tree
    fields: tuple[str, ...] | None = None
    answer: Tree | None = None


def ready(
    resource: StoredResource, trees: tuple[Tree, Tree], version: str, live: Live | None, *, through_hub: bool
) -> Ready:
    """`trees`, which are in the stored and the request version, when every version can show them.

    `through_hub` says that the write has been in the hub version. An update may leave an object as unreadable as it
    is, or nobody could end one. A converter that waits isn't asked, as Kubernetes asks no webhook more than it must.
    Raises what a conversion refuses with, and ConversionError.
    """
    stored, shown = trees
    converter = resource.served.converter
    if len(resource.compiled) == 1 or converter.alike or converter.waits:
        return Ready(stored, shown)
    try:
        return Ready(stored, shown, *_readings(resource, stored, version, through_hub))
    except StatusError:
        if live is None or _is_readable(resource, live):
            raise
        return Ready(stored, shown)


def _readings(
    resource: StoredResource, stored: Tree, version: str, through_hub: bool
) -> tuple[tuple[str, ...], Tree | None]:
    fields: tuple[str, ...] = ()
    answer: Tree | None = None
    for one in _untried(resource, version, through_hub):
        seen = resource.look(stored, one.name)
        assert seen is not None  # a converter that never waits has it at once
        if one.selectable:
            fields += resource.compiled[one.name].selectable_values(seen)
        if one.name == version:
            answer = seen
    return fields, answer if version != resource.definition.stored_as else None


def _untried(resource: StoredResource, version: str, through_hub: bool) -> tuple[VersionDefinition, ...]:
    """The versions that have to be looked at: found once for each version that is written."""
    found = resource.untried.get((version, through_hub))
    if found is None:
        definition = resource.definition
        stored_as = definition.stored_as
        seen = {stored_as, definition.hub} if through_hub and version == stored_as else {stored_as}
        found = resource.untried[version, through_hub] = tuple(
            one
            for one in definition.versions
            if one.selectable or (one.name not in seen and (one.served or one.name == version))
        )
    return found


def _is_readable(resource: StoredResource, live: Live) -> bool:
    for version in resource.definition.versions:
        try:
            resource.tree_now(live.entry, version.name)
        except StatusError:
            return False
    return True
