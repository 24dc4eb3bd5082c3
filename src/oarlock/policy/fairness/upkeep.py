"""What has to be written so that the stored objects are as they should be. Pure.

See also: `builtin`, the objects; ``apps.controlplane.flow_control``, which writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oarlock.meta.json_trees import Tree
from oarlock.policy.fairness.builtin import AUTO_UPDATE
from oarlock.policy.fairness.settings import EXEMPT

DanglingCondition = tuple[str, str, str]
"""Status, reason and message."""

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def renewed(stored: Tree, wanted: Mapping[str, Any], *, mandatory: bool) -> Tree | None:
    """The object `stored` as it should be, with the spec of `wanted` unless an administrator keeps it; None if it is.

    Somebody who sets the annotation to ``false`` keeps a suggested object, and so does who changed its spec without
    setting it. Of the exempt level, the seats may be changed.
    """
    metadata = stored["metadata"]
    annotations = metadata.get("annotations") or {}
    value = annotations.get(AUTO_UPDATE, "")
    updates = mandatory or (value in _TRUE if value in _TRUE | _FALSE else metadata.get("generation") == 1)
    spec = dict(wanted["spec"])
    if metadata["name"] == EXEMPT and "exempt" in spec and updates and "exempt" in stored["spec"]:
        spec["exempt"] = stored["spec"]["exempt"]
    wanted_value = "true" if updates else "false"
    is_marked = value in (_TRUE if updates else _FALSE)
    if is_marked and (not updates or stored["spec"] == spec):
        return None
    changed = {**stored, "metadata": {**metadata, "annotations": {**annotations, AUTO_UPDATE: wanted_value}}}
    if updates:
        changed["spec"] = spec
    return changed


def dangling(level: str, *, exists: bool) -> DanglingCondition:
    """The condition ``Dangling`` of a schema that refers to `level`."""
    about = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    if exists:
        return "False", "Found", f"{about} and it exists"
    return "True", "NotFound", f"{about} but there is no such object"
