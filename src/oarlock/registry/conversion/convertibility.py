"""Checks, before an object is stored, that it can be converted to every version; else it would break every list.

An object that can't be converted is refused with the converter's error. Versions that the write has converted to
already aren't tried again; what trying the others yields (the values of selectable fields, the answer) is used.
Must not know: how the object was made. See also: `stored.object_storage`, which calls this last.
"""

from __future__ import annotations

from typing import NamedTuple

from oarlock.meta.errors import StatusError
from oarlock.meta.json_trees import Tree
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.write.write_request import LiveObject
from oarlock.schema.definition import VersionDefinition

__all__ = ["StorableObject", "storable"]


class StorableObject(NamedTuple):
    """An object that may be stored, in the stored and in the request version.

    `fields` are the values of its selectable fields, and `answer` is its tree in the request version as it will be read
    back; None where not known.
    """

    stored: Tree
    shown: Tree
    fields: tuple[str, ...] | None = None
    answer: Tree | None = None


def storable(
    resource: StoredResource, trees: tuple[Tree, Tree], version: str, live: LiveObject | None, through_hub: bool
) -> StorableObject:
    """Check that `trees`, in the stored and the request version, can be shown in every version.

    `through_hub` says that the write has been converted to the hub version. An object that couldn't be converted before
    the update may stay so, or nobody could delete it. A converter that waits isn't asked, as Kubernetes doesn't call
    webhooks for this either. Raises what a conversion refuses with, and ConversionError.
    """
    stored, shown = trees
    tries = resource.conversions_to_try.get((version, through_hub))
    if tries is None:
        tries = resource.conversions_to_try[version, through_hub] = _versions_to_try(resource, version, through_hub)
    if not tries:
        return StorableObject(stored, shown)
    try:
        return StorableObject(stored, shown, *_readings(resource, stored, version, tries))
    except StatusError:
        if live is None or _is_readable(resource, live):
            raise
        return StorableObject(stored, shown)


def _readings(
    resource: StoredResource, stored: Tree, version: str, tries: tuple[VersionDefinition, ...]
) -> tuple[tuple[str, ...], Tree | None]:
    fields: tuple[str, ...] = ()
    answer: Tree | None = None
    for attempt in tries:
        tree = resource.look(stored, attempt.name)
        assert tree is not None  # a converter that never waits returns it at once
        if attempt.selectable:
            fields += resource.compiled[attempt.name].selectable_values(tree)
        if attempt.name == version:
            answer = tree
    return fields, answer if version != resource.definition.stored_as else None


def _versions_to_try(resource: StoredResource, version: str, through_hub: bool) -> tuple[VersionDefinition, ...]:
    """The versions that the write hasn't converted to, or whose selectable fields are needed."""
    definition, converter = resource.definition, resource.served.converter
    if len(resource.compiled) == 1 or converter.alike or converter.waits:
        return ()
    stored_as = definition.stored_as
    tried = {stored_as, definition.hub} if through_hub and version == stored_as else {stored_as}
    return tuple(
        served
        for served in definition.versions
        if served.selectable or (served.name not in tried and (served.served or served.name == version))
    )


def _is_readable(resource: StoredResource, live: LiveObject) -> bool:
    if live.entry is None:
        return True
    for version in resource.definition.versions:
        try:
            resource.tree_now(live.entry, version.name)
        except StatusError:
            return False
    return True
