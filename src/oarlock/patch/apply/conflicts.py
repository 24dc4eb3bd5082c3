"""The message and causes for the conflicts of an apply, as kubectl prints them.

`errors` has the conflicts themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from oarlock.patch.apply.elements import path_text
from oarlock.patch.apply.errors import OwnerConflict

MAX_SHOWN = 1000
"""Conflicts that are named; of the rest only the number is told."""


def message(conflicts: Sequence[OwnerConflict]) -> str:
    """The message of the Status, grouped by manager, with at most `MAX_SHOWN` fields."""
    if len(conflicts) == 1:
        only = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {only.manager}: {path_text(only.path)}"
    lines = []
    last = None
    for conflict in conflicts[:MAX_SHOWN]:
        if conflict.manager != last:
            lines.append(f"conflicts with {conflict.manager}:")
            last = conflict.manager
        lines.append(f"- {path_text(conflict.path)}")
    if len(conflicts) > MAX_SHOWN:
        lines.append(f"and {len(conflicts) - MAX_SHOWN} more")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def causes(conflicts: Sequence[OwnerConflict]) -> list[dict[str, str]]:
    """The ``details.causes`` of the Status, one for each field, at most `MAX_SHOWN`."""
    return [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {conflict.manager}",
            "field": path_text(conflict.path),
        }
        for conflict in conflicts[:MAX_SHOWN]
    ]
