"""Who owns the replicas, told in terms of the scale subresource and back.

A client of ``/scale`` sees managers of ``.spec.replicas`` of an autoscaling/v1 Scale; the object itself keeps them
at the path its version has for it. Must not know: what a Scale looks like otherwise. Next: `tracking`.
"""

from __future__ import annotations

from collections.abc import Mapping

from oarlock.patch.apply import elements
from oarlock.patch.apply.elements import Path
from oarlock.patch.apply.fieldsets import difference, has, make
from oarlock.patch.apply.managers import Entry, Managed, decode, encode
from oarlock.patch.apply.updater import Owned

__all__ = ["Replicas", "replicas_path", "to_object", "to_scale"]

Replicas = Mapping[str, Path | None]
"""The path of the replicas by apiVersion of the object; None for a version without scale."""

_IN_SCALE: Path = ("f:spec", "f:replicas")
_SCALE_VERSION = "autoscaling/v1"


def replicas_path(json_path: str) -> Path:
    """``.spec.replicas`` as a path of fields."""
    return tuple(elements.field(name) for name in json_path.split(".") if name)


def to_scale(entries: list[Entry], replicas: Replicas) -> list[Entry]:
    """The managedFields of the Scale of an object with these. Raises ManagedFieldsError, FieldsError."""
    managed, result = decode(entries), Managed()
    for identity, owned in managed.owned.items():
        path = replicas.get(owned.version)
        if path is not None and has(owned.fields, path):
            result.owned[identity] = Owned(make([_IN_SCALE]), _SCALE_VERSION, owned.applied)
            if identity in managed.times:
                result.times[identity] = managed.times[identity]
    return encode(result)


def to_object(entries: list[Entry], scale_entries: list[Entry], api_version: str, replicas: Replicas) -> list[Entry]:
    """The managedFields of an object that had `entries`, once its Scale has `scale_entries`.

    Who owned the replicas of the object and doesn't own those of the Scale any more has lost them; new owners get
    them in `api_version`. Entries of unknown versions are dropped. Raises ManagedFieldsError, FieldsError.
    """
    managed, scale = decode(entries), decode(scale_entries)
    result = Managed(times=dict(managed.times))
    for identity, owned in managed.owned.items():
        if owned.version not in replicas:
            continue
        path = replicas[owned.version]
        if path is None or not has(owned.fields, path) or scale.owned.pop(identity, None) is not None:
            result.owned[identity] = owned
            continue
        left = difference(owned.fields, make([path]))
        if left:
            result.owned[identity] = Owned(left, owned.version, owned.applied)
    path = replicas[api_version]
    for identity, owned in scale.owned.items():
        if path is not None and has(owned.fields, _IN_SCALE):
            result.owned[identity] = Owned(make([path]), api_version, owned.applied)
            if identity in scale.times:
                result.times.setdefault(identity, scale.times[identity])
    return encode(result)
