"""Migration from client-side apply: handles kubectl's last-applied-configuration annotation in server-side apply.

After a client-side apply the fields are owned by an updater, so the first server-side apply of the
same kubectl would conflict with itself. Fields whose live value is the last applied one are therefore taken without
force, and the annotation is updated. This applies only to the manager named exactly ``kubectl``.
Source: kubectl.kubernetes.io/last-applied-configuration; KEP-555, "upgrade from client-side apply".
"""

from __future__ import annotations

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.json_trees import Tree
from oarlock.patch.apply import validate
from oarlock.patch.apply.errors import OwnerConflict, TypedError
from oarlock.patch.apply.fieldsets import compare, difference, has
from oarlock.patch.apply.owned import fields_of
from oarlock.patch.apply.schema import ValueType

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"
MAX_ANNOTATIONS_BYTES = 256 * 1024
"""Names and values of all annotations of an object together."""


def remaining(
    conflicts: tuple[OwnerConflict, ...], type_: ValueType, live: Tree, api_version: str
) -> tuple[OwnerConflict, ...]:
    """The conflicts about fields that weren't in the last client-side apply, or that have changed since."""
    text = (live.get("metadata", {}).get("annotations") or {}).get(ANNOTATION)
    if not text or type(text) is not str:
        return conflicts
    try:
        applied = json.decode(text.encode())
        if type(applied) is not dict or applied.get("apiVersion") != api_version:
            return conflicts
        validate.check(type_, applied)
        changes = compare(type_, applied, live)
        fields = difference(fields_of(type_, applied), changes.changed)
    except (DecodeError, TypedError, UnicodeEncodeError):
        return conflicts
    fields = difference(fields, changes.removed)
    return tuple(conflict for conflict in conflicts if not has(fields, conflict.path))


def with_last_applied(merged: Tree, config: Tree) -> Tree:
    """`merged` with `config` in its annotation, if it has one. If that is too large, the annotation is removed."""
    annotations = (merged.get("metadata") or {}).get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return merged
    applied = dict(config)
    if type(applied.get("metadata")) is dict and type(applied["metadata"].get("annotations")) is dict:
        own = {name: value for name, value in applied["metadata"]["annotations"].items() if name != ANNOTATION}
        applied["metadata"] = {**applied["metadata"], "annotations": own}
        if not own:
            del applied["metadata"]["annotations"]
    text = json.encode_canonical(applied).decode() + "\n"
    others = {name: value for name, value in annotations.items() if name != ANNOTATION}
    total = sum(len(name.encode()) + len(str(value).encode()) for name, value in others.items())
    if total + len(ANNOTATION) + len(text.encode()) <= MAX_ANNOTATIONS_BYTES:
        others = {**annotations, ANNOTATION: text}
    return {**merged, "metadata": {**merged["metadata"], "annotations": others}}
