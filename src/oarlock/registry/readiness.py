"""Checks, before an object is stored, that it can be converted to every version; else it would break every list.

An object that can't be converted is refused with the converter's error. Versions that the write has converted to
already aren't tried again; what trying the others yields (the values of selectable fields, the answer) is used.
Must not know: how the object was made. See also: `steps`, which calls this last.
"""

from __future__ import annotations

from typing import NamedTuple

from oarlock.meta.errors import StatusError
from oarlock.registry.served import Tree
from oarlock.registry.stored_resource import StoredResource
from oarlock.schema.definition import VersionDefinition
from oarlock.storage.cache.entry import Entry

__all__ = ["LiveObject", "Ready", "ready"]


class LiveObject(NamedTuple):
    """The object before the write: its entry, and a tree in the request version that must not be changed.

    `whole` is False when the object can't be converted, and the tree has only the part that could be read.
    """

    entry: Entry
    tree: Tree
    whole: bool = True


class Ready(NamedTuple):
    """An object that may be stored, in the stored and in the request version.

    `fields` are the values of its selectable fields, and `answer` is its tree in the request version as it will be read
    back; None where not known.
    """

    stored: Tree
    shown: Tree
    fields: tuple[str, ...] | None = None
    answer: Tree | None = None


def ready(
    resource: StoredResource, trees: tuple[Tree, Tree], version: str, live: LiveObject | None, *, through_hub: bool
) -> Ready:
    """Check that `trees`, in the stored and the request version, can be shown in every version.

    `through_hub` says that the write has been converted to the hub version. An object that couldn't be converted before
    the update may stay so, or nobody could delete it. A converter that waits isn't asked, as Kubernetes doesn't call
    webhooks for this either. Raises what a conversion refuses with, and ConversionError.
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
        assert seen is not None  # a converter that never waits returns it at once
        if one.selectable:
            fields += resource.compiled[one.name].selectable_values(seen)
        if one.name == version:
            answer = seen
    return fields, answer if version != resource.definition.stored_as else None


def _untried(resource: StoredResource, version: str, through_hub: bool) -> tuple[VersionDefinition, ...]:
    """The versions to try, cached by request version."""
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


def _is_readable(resource: StoredResource, live: LiveObject) -> bool:
    for version in resource.definition.versions:
        try:
            resource.tree_now(live.entry, version.name)
        except StatusError:
            return False
    return True
