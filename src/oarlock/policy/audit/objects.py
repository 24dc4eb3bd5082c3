"""Objects as an audit event has them: JSON in one line, without managedFields if the policy says so. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from oarlock.codec import json as json_codec

__all__ = ["encoded_object", "metadata_of", "object_json"]

_META = ("namespace", "name", "uid", "resourceVersion")


def metadata_of(tree: Mapping[str, Any]) -> dict[str, str]:
    """Namespace, name, uid and resourceVersion of an object, as far as it has them."""
    meta = tree.get("metadata")
    if not isinstance(meta, dict):
        return {}
    return {name: value for name in _META if isinstance(value := meta.get(name), str)}


def encoded_object(value: Mapping[str, Any] | bytes, omit_managed_fields: bool) -> bytes:
    """An object, list or Table, given as a tree or as JSON."""
    if omit_managed_fields:
        if isinstance(value, bytes):
            if b'"managedFields"' not in value:
                return object_json(value)
            value = json_codec.decode(value)
        return json_codec.encode(_without_managed_fields(value))
    return object_json(value)


def object_json(value: Any) -> bytes:
    """A tree as JSON; JSON in one line as it is, and any other in one line."""
    if not isinstance(value, bytes):
        return json_codec.encode(value)
    value = value.strip()
    if b"\n" in value or b"\r" in value:
        value = msgspec.json.format(value, indent=-1)
    return bytes(value)


def _without_managed_fields(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    changed = dict(tree)
    meta = changed.get("metadata")
    if isinstance(meta, dict) and "managedFields" in meta:
        changed["metadata"] = {name: value for name, value in meta.items() if name != "managedFields"}
    if isinstance(items := changed.get("items"), list):
        changed["items"] = [_without_managed_fields(item) for item in items]
    if isinstance(rows := changed.get("rows"), list):
        changed["rows"] = [
            {**row, "object": _without_managed_fields(row.get("object"))} if isinstance(row, dict) else row
            for row in rows
        ]
    return changed
