"""Whether a value has the same content under two schemas: the same types, defaults and fields.

Rules over a whole object or list (CEL, ``anyOf``, the number of fields) say the same of it only then.
See also: `compare`, which asks.
"""

from __future__ import annotations

from oarlock.schema.definition import Schema

__all__ = ["alike"]

_CONTENT = (
    "type",
    "format",
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-oarlock-omit-empty",
)
_ABSENT = object()


def alike(old: Schema, new: Schema) -> bool:
    """Whether every value that fits both means the same under both. Both schemas are canonical."""
    if old == new:
        return True
    if any(old.get(key) != new.get(key) for key in _CONTENT) or not _same_default(old, new):
        return False
    for key in ("items", "additionalProperties"):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            if not alike(before, after):
                return False
        elif before != after:
            return False
    return _same_fields(old, new)


def _same_default(old: Schema, new: Schema) -> bool:
    before, after = old.get("default", _ABSENT), new.get("default", _ABSENT)
    return type(before) is type(after) and before == after


def _same_fields(old: Schema, new: Schema) -> bool:
    """Whether the declared fields are the same, but for new ones that no stored value has."""
    before, after = old.get("properties", {}), new.get("properties", {})
    if not before.keys() <= after.keys():
        return False
    if any(not alike(child, after[name]) for name, child in before.items()):
        return False
    added = after.keys() - before.keys()
    if added and (old.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in old):
        return False
    return not any("default" in after[name] for name in added)
