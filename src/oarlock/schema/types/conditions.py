"""`Condition`: one aspect of an object's state, as Kubernetes' objects have it; and functions for lists of them.

    status.conditions: Annotated[list[Condition], ListMap("type")] = []
    set_condition(status.conditions, Condition(type="Ready", status="True", reason="Running"), clock)

Source: k8s.io/apimachinery ``meta/v1`` Condition and ``api/meta`` SetStatusCondition.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from oarlock.meta.context import Clock
from oarlock.schema.types.markers import Ge, MaxLength, MinLength, Pattern
from oarlock.schema.types.shapes import Model, replace


class Condition(Model):
    """One aspect of an object's state: `status` is ``True``, ``False`` or ``Unknown``, with a reason and a message."""

    type: Annotated[
        str,
        MaxLength(316),
        Pattern(
            r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        ),
    ]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, MinLength(1), MaxLength(1024), Pattern(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    message: Annotated[str, MaxLength(32768)] = ""
    last_transition_time: datetime | None = None
    observed_generation: Annotated[int | None, Ge(0)] = None


def set_condition(conditions: list[Condition], condition: Condition, clock: Clock) -> bool:
    """Replace the condition of this type, or append `condition`. Returns whether anything has changed.

    Unless `condition` has a `last_transition_time`, it is that of the replaced condition if the status is the same, and
    otherwise the time of `clock`, in whole seconds. The list is changed in place. Its conditions aren't, because an
    informer's objects are shared.
    """
    before = find_condition(conditions, condition.type)
    since = None if before is None else before.last_transition_time
    if before is None or before.status != condition.status:
        since = condition.last_transition_time or datetime.fromtimestamp(int(clock.now()), UTC)
    after = replace(condition, last_transition_time=since)
    if before is None:
        conditions.append(after)
    elif after != before:
        conditions[:] = [after if condition is before else condition for condition in conditions]
    return after != before


def find_condition(conditions: Sequence[Condition], type: str) -> Condition | None:
    """The condition of this type, or None."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_condition_true(conditions: Sequence[Condition], type: str) -> bool:
    """Whether there is a condition of this type with the status ``True``."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "True"


def remove_condition(conditions: list[Condition], type: str) -> bool:
    """Remove the condition of this type from the list. Returns whether there was one."""
    kept = [condition for condition in conditions if condition.type != type]
    removed = len(kept) < len(conditions)
    conditions[:] = kept
    return removed
