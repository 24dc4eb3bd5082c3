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

__all__ = ["Condition", "find_condition", "is_condition_true", "remove_condition", "set_condition"]


class Condition(Model):
    """One aspect of an object's state: whether it is so, since when, and why."""

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
    """Put `condition` in the place of the one of its type, or at the end; returns whether anything has changed.

    Its `last_transition_time`, unless it says one, is that of the one before while the status stays the same, else now
    by `clock`, in whole seconds. The list is changed in place, and no condition is: those of an informer are shared.
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
    """The condition of a type; None if there is none."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_condition_true(conditions: Sequence[Condition], type: str) -> bool:
    """Whether there is a condition of this type whose status is ``True``."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "True"


def remove_condition(conditions: list[Condition], type: str) -> bool:
    """Take out the condition of a type, in place; returns whether there was one."""
    kept = [condition for condition in conditions if condition.type != type]
    removed = len(kept) < len(conditions)
    conditions[:] = kept
    return removed
